# make demo: trimtab's main job on this machine, set-up included.  make test: every test, set-up included.
# make setup-lab: what the shop of three tiers and the kernel lab need, beside what the demo needs.
.DELETE_ON_ERROR:
.PHONY: demo test setup setup-lab setup-test lint lint-python lint-rust unit native servers servers-beside servers-alone \
	servers-quiet docs clean

bin := .venv/bin
pytest := $(bin)/python tests/nothing_left.py $(bin)/pytest -q
# Images of containers forbid it: then each process of the tests, each `trimtab` that they start too, compiles all that it imports.
export PYTHONDONTWRITEBYTECODE :=
# By itself numpy has a thread for each further CPU, which turns in circles for a while after each product: trimtab has none either.
export OPENBLAS_NUM_THREADS ?= 1
# clippy lints what it compiles, and the tests are built with it: by itself it would have to read all of it once more.
linted := RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings \
	cargo test --manifest-path native/Cargo.toml --locked --profile checks --quiet
sources := $(shell find native -name '*.rs' -not -path '*/target/*') $(wildcard native/*/Cargo.toml) \
	native/Cargo.toml native/Cargo.lock
stamp := .venv/.setup-stamp
inputs := tools/setup.sh packages.txt requirements.txt pyproject.toml $(sources)

demo: setup
	$(bin)/trimtab lab run demo --seeds 1 --fresh --report demo-report.html

test: setup-test
	$(MAKE) -j 2 --output-sync=target lint-python native
	$(MAKE) -j 2 --output-sync=target servers-alone unit
	$(MAKE) servers-quiet

setup: $(stamp)

setup-test: $(stamp)-test

setup-lab: $(stamp)-lab

$(stamp): $(inputs)
	tools/setup.sh
	touch $@

$(stamp)-lab: $(inputs)
	tools/setup.sh --lab
	touch $(stamp) $@

$(stamp)-test: $(inputs)
	tools/setup.sh --test
	touch $(stamp) $(stamp)-lab $@

lint: lint-python lint-rust

lint-python: setup-test
	$(bin)/ruff check src tests benchmarks tools
	$(bin)/ruff format --check src tests benchmarks tools
	$(bin)/mypy
	$(bin)/python tools/docs.py --check

lint-rust: setup-test
	cargo fmt --manifest-path native/Cargo.toml --all --check
	$(linted) --no-run

native: lint-rust
	$(linted)

unit: setup-test
	nice -n 5 $(pytest) -n auto --maxprocesses 8 -m 'not server' tests/unit tests/papers tests/conformance

servers: servers-alone
	$(MAKE) servers-quiet

servers-beside: setup-test
	$(pytest) -n 3 --dist loadscope --no-loadscope-reorder -m 'server and not alone and not quiet' tests/conformance tests/servers

servers-alone: servers-beside
	$(pytest) -m alone tests/servers

servers-quiet: setup-test
	$(pytest) -n 2 --dist loadscope --no-loadscope-reorder -m quiet tests/servers

docs: setup
	$(bin)/python tools/docs.py

clean:
	rm -rf .venv native/target build src/*.egg-info demo-report.html
