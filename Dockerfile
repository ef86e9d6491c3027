# Two images: `inquest`, which holds the binary and nothing else, and `inquest-workspace`, which has the commands of run_shell beside it
# (`--target workspace`). Each can be made in two ways. For everybody: `docker build .` compiles in a stage. Where the binary is built beside
# (`make image` on a machine without a registry): the `prebuilt` targets, which copy dist/ into an empty image.
FROM scratch AS prebuilt
COPY dist/inquest /inquest
USER 65532:65532
ENTRYPOINT ["/inquest"]

FROM prebuilt AS prebuilt-workspace
COPY dist/bin /bin

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# Static, and resolving cluster DNS: glibc's own resolver, linked in.
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$(uname -m)-unknown-linux-gnu" \
    && cp "target/$(uname -m)-unknown-linux-gnu/release/inquest" /inquest

FROM busybox:1.37-musl AS programs
RUN mkdir /programs && cp /bin/busybox /programs/ \
    && for name in ls cat head tail wc grep find du stat sort uniq date; do ln -s busybox "/programs/$name"; done

FROM scratch AS workspace
COPY --from=build /inquest /inquest
COPY --from=programs /programs /bin
USER 65532:65532
ENTRYPOINT ["/inquest"]

FROM scratch
COPY --from=build /inquest /inquest
USER 65532:65532
ENTRYPOINT ["/inquest"]
