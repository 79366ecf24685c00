# make demo: trimtab's main job on this machine, set-up included.  make test: every test, set-up included.
.DELETE_ON_ERROR:
.PHONY: demo test setup setup-test lint unit native servers docs clean

bin := .venv/bin
sources := $(shell find native -name '*.rs' -not -path '*/target/*') $(wildcard native/*/Cargo.toml) \
	native/Cargo.toml native/Cargo.lock
stamp := .venv/.setup-stamp
inputs := tools/setup.sh packages.txt requirements.txt pyproject.toml $(sources)

demo: setup
	$(bin)/trimtab lab run demo --report demo-report.html

test: lint native unit servers

setup: $(stamp)

setup-test: $(stamp)-test

$(stamp): $(inputs)
	tools/setup.sh
	touch $@

$(stamp)-test: $(inputs)
	tools/setup.sh --test
	touch $(stamp) $@

lint: setup-test
	$(bin)/ruff check src tests benchmarks tools
	$(bin)/ruff format --check src tests benchmarks tools
	$(bin)/mypy
	$(bin)/python tools/docs.py --check
	cargo fmt --manifest-path native/Cargo.toml --all --check
	cargo clippy --manifest-path native/Cargo.toml --all-targets --locked -- -D warnings

native: setup-test
	cargo test --manifest-path native/Cargo.toml --locked --release --quiet

unit: setup-test
	$(bin)/pytest -q -n auto --maxprocesses 8 tests/unit tests/papers tests/conformance

servers: setup-test
	$(bin)/pytest -q tests/servers

docs: setup
	$(bin)/python tools/docs.py

clean:
	rm -rf .venv native/target build src/*.egg-info demo-report.html
