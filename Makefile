# The two commands of the README, and their parts. Each part can be run alone.
SHELL := bash
.PHONY: demo test fuzz check unit e2e crds image node-up node-down clean bench bench-tools bench-loop

demo: ## a cluster, Inquest in it, and a broken shop explained
	@k3d/demo.sh

test: check unit e2e ## everything that CI runs

check: ## format, lints, docs
	cargo fmt --check
	cargo clippy --quiet --all-targets --all-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --no-deps --locked

unit: ## all tests that need no cluster
	@tests/services.sh
	cargo test --quiet --locked

fuzz: ## every property test for a minute
	INQUEST_FUZZ_SECONDS=60 cargo test --quiet --locked --lib fuzz_ -- --nocapture

e2e: ## the tests on a real node: starts it, installs the chart, and stops it again if it was not running before
	@tests/cluster/e2e.sh

bench: ## figures on the real node
	@benches/whole-path.sh

bench-tools: ## calls a second of a tool server, beside those of others
	@benches/tools.sh

bench-loop: ## overhead of a step and memory of a run, beside a LangGraph agent
	@benches/loop.sh

crds: ## write the generated CRDs anew
	cargo run --quiet --locked -- crds crds charts/inquest/crds

image:
	@mkdir -p .work && tests/cluster/image.sh .work

node-up:
	@tests/cluster/node.sh up && echo "export KUBECONFIG=$$(tests/cluster/node.sh env)"

node-down:
	@tests/cluster/node.sh down

clean:
	rm -rf target dist .work
