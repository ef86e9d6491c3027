# Two ways to the same image. For everybody: `docker build .` compiles in the first stage. Where the binary is built beside
# (`make image` on a machine without a registry): `--target prebuilt`, which copies dist/inquest into an empty image.
FROM scratch AS prebuilt
COPY dist/inquest /inquest
USER 65532:65532
ENTRYPOINT ["/inquest"]

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# Static, and resolving cluster DNS: glibc's own resolver, linked in.
RUN RUSTFLAGS="-C target-feature=+crt-static" cargo build --release --locked --target "$(uname -m)-unknown-linux-gnu" \
    && cp "target/$(uname -m)-unknown-linux-gnu/release/inquest" /inquest

FROM scratch
COPY --from=build /inquest /inquest
USER 65532:65532
ENTRYPOINT ["/inquest"]
