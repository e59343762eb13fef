# Every command of the project. `make` alone lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What the Python module is built from: a change of a test does not start a release build.
RUST := $(shell find crates \( -name tests -o -name benches \) -prune -o \( -name '*.rs' ! -name tests.rs -o -name Cargo.toml \) -print) Cargo.toml Cargo.lock

.PHONY: validate figures training-software help setup demo check test test-rust test-python test-many test-random test-slow test-torch test-torch-suite test-torch-versions test-worlds torch bench bench-ddp bench-executor bench-estimate bench-flow bench-grouping bench-hub bench-joint bench-machine bench-packet bench-plan-changes bench-released bench-reorder bench-runtime bench-sum bench-transports reference-packet experiments-astra2020 experiments-dlrm2020 experiments-hier2021 experiments-luo2020 experiments-topoopt2022 lint loom miri mutants wheel nccl-machines web schema transcripts clean
.DEFAULT_GOAL := help

help: ## list the commands
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 32

setup: $(VENV)/.built ## build everything into .venv; afterwards .venv/bin/syncline works

$(VENV)/.tools: requirements-dev.txt
	@.ci/require $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(VENV)/.built: $(VENV)/.tools $(RUST) pyproject.toml
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release > $(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }
	@touch $@

demo: setup ## find the best way to divide Llama 3.1 70B among 512 H100
	$(BIN)/syncline design parallel examples/llama-3-70b/config.json --gpus 512 --accelerator H100 --top 3

check: $(VENV)/.tools ## what a change needs, in about a minute: lints and tests of what changed; BASE=main for a branch
	@BASE=$(BASE) .ci/check

test: test-rust test-python ## all tests but experiments that take minutes

# The same random cases every time, so that what passes goes on passing; `cargo test` and `make test-random` draw new ones.
# Optimised as `make setup` builds, whose crates it takes; `cargo test` alone builds quickly, and checks `debug_assert`.
test-rust: $(VENV)/.tools
	PROPTEST_RNG_SEED=1 cargo test --workspace --locked --quiet --release

# Python's property tests have the numbers of cases that they state.
test-random: setup ## property tests on cases that were never seen before; CASES=10000 for more of them in Rust
	PROPTEST_CASES=$(or $(CASES),2000) cargo test --workspace --locked --quiet --release
	SYNCLINE_RANDOM=1 $(BIN)/python -m pytest -q -m "not slow" $$(grep -rl "from hypothesis import" tests --include=test_*.py)

test-worlds: ## faults of jobs of 256 and 512 ranks in virtual time, which all other tests leave out
	cargo test --quiet --release --locked -p syncline-membership --test all world:: -- --ignored

test-python: setup
	$(BIN)/python -m pytest -q -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder

test-many: ## 256 processes that connect in a ring, then with all others, or RANKS=512; minutes on 2 CPUs, and 4 GB of memory
	RANKS=$(or $(RANKS),256) cargo test -p syncline-executor --release --locked --test all on_demand:: -- --ignored --nocapture
	RANKS=$(or $(RANKS),256) cargo test -p syncline-executor --release --locked --test all many:: -- --ignored --nocapture

test-slow: setup ## experiments that take minutes
	$(BIN)/python -m pytest -q -m slow

test-torch: setup ## the tests that need PyTorch; installs the extra `torch` into .venv first
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "syncline[torch]"
	$(BIN)/python -m pytest -q -m "not slow" tests/torch tests/models tests/kernels tests/cli/test_profile.py tests/docs

test-torch-suite: setup ## PyTorch's own tests of process groups over Gloo and syncline; ARGS="test_broadcast" for some
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "syncline[torch]" numpy expecttest
	$(BIN)/python -m tests.torch_suite $(ARGS)

# The oldest PyTorch that works, and the newest.
TORCHES := 2.14.1 2.15.0
TORCH := $(VENV)/torch

torch: $(VENV)/.tools
	.ci/torch $(BIN)/python $(TORCH) $(TORCHES)

test-torch-versions: setup torch ## what CI runs of the PyTorch tests, on the oldest PyTorch that works and on the newest
	for version in $(TORCHES); do \
	  export PYTHONPATH=$(abspath $(TORCH))/$$version:$(abspath $(TORCH))/needs SYNCLINE_REQUIRES="torch $$SYNCLINE_REQUIRES"; \
	  $(BIN)/python -m tests.torch_suite --from tests/torch_suite/selection.txt || exit; \
	done; \
	$(BIN)/python -m pytest -q -n auto --dist worksteal tests/torch/test_parity.py tests/torch/test_tuning.py tests/models/traced tests/kernels tests/cli/test_profile.py

bench: setup ## speed of the engines, time to start; CONTRIBUTING says how to read it
	cargo bench --quiet --locked -p syncline-simulate --bench messages
	cargo bench --quiet --locked -p syncline-astra-compat --bench speed
	$(BIN)/python benches/scale.py
	$(BIN)/python benches/start_up.py

bench-estimate: setup ## parallel configurations of language models that are estimated in a minute
	$(BIN)/python benches/estimate.py

bench-flow: ## speed of the flow model beside SimGrid, where that is installed; ARGS=--all for its large cases, too
	$(PYTHON) benches/flow.py $(ARGS)

bench-packet: ## speed of the packet model beside ns-3, where that is installed; queues of events
	$(PYTHON) benches/packet.py
	cargo bench --quiet --locked -p syncline-net-packet --bench queues

bench-ddp: setup ## DDP beside Gloo on an emulated cluster; needs root and PyTorch; ARGS="--gloo PYTHON mlp" for one model
	$(BIN)/python benches/ddp.py $(ARGS)

bench-executor: setup ## the executor's plans on an emulated cluster, beside Gloo and Open MPI; needs root; ARGS="--gloo PYTHON 25MB"
	$(BIN)/python benches/executor.py $(ARGS)

bench-hub: setup ## a parameter hub on an emulated cluster, beside Gloo; needs root; ARGS="--gloo PYTHON 25MB"
	$(BIN)/python benches/hub.py $(ARGS)

bench-joint: setup ## the search for strategy and topology: its speed, and its answers beside the best and simulations
	$(BIN)/python benches/joint.py

bench-released: setup ## strategies found beside those that FlexNet found, packet by packet; DATA=FOLDER of its task graphs
	$(BIN)/python benches/released_strategies.py $(DATA)

bench-plan-changes: setup ## what a change of plans costs a running job, in small all-reduces
	$(BIN)/python benches/plan_changes.py

bench-grouping: setup ## racks found from few probes and from all pairs, beside what these could tell at best
	$(BIN)/python benches/grouping.py $(ARGS)

bench-reorder: setup ## orders of ranks that are found beside random ones, on an emulated cluster; needs root; ARGS="--gloo PYTHON gloo"
	$(BIN)/python benches/reorder.py $(ARGS)

bench-machine: setup ## all-reduces between processes of this machine, beside Gloo and Open MPI; ARGS="--gloo PYTHON 100MB"
	$(BIN)/python benches/machine.py $(ARGS)

bench-sum: ## speed of sums beside what memory gives, tall beside wide; ARGS="f16 bf16" for some elements
	cargo bench --quiet --locked -p syncline-reduction --bench sum -- $(ARGS)
	cargo bench --quiet --locked -p syncline-reduction --bench aggregation

bench-transports: ## all-reduces over each transport of one machine; ARGS="shared --size=104857600" for one
	cargo bench --quiet --locked -p syncline-executor --bench transports -- $(ARGS)

bench-runtime: ## all of what runs for real, beside Gloo and Open MPI where they are; as root; ARGS="--gloo PYTHON"
	$(MAKE) --no-print-directory bench-sum bench-transports ARGS=
	$(MAKE) --no-print-directory bench-machine bench-executor bench-hub bench-ddp

reference-packet: ## the packet model against ns-3, case by case, over 20 seeds
	cargo test --quiet --release --locked -p syncline-net-packet --test all reference:: -- --include-ignored --nocapture

experiments-astra2020: setup ## figures of astra2020 again, claims judged; FIG=9 for one
	$(BIN)/python -m experiments astra2020 $(FIG)

experiments-dlrm2020: setup ## figures of dlrm2020 again, packet by packet; FIG=7 for one
	$(BIN)/python -m experiments dlrm2020 $(FIG)

experiments-hier2021: setup ## figures of hier2021 again: bandwidth divided three ways; FIG=13 for one
	$(BIN)/python -m experiments hier2021 $(FIG)

experiments-topoopt2022: setup ## figures of topoopt2022 again: strategy and topology searched together; FIG=12 for one
	$(BIN)/python -m experiments topoopt2022 $(FIG)

experiments-luo2020: setup ## figures of luo2020 predicted, and run on a testbed where root is; FIG=6.5 for one, ARGS="--gloo PYTHON" beside Gloo
	$(BIN)/python -m experiments luo2020 $(FIG) $(ARGS)

# Optimised, because `make setup` has built macros and build scripts that way.
lint: setup ## formatting, lints, types
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet --release -- -D warnings
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy

# Isolation is off because proptest asks for the folder. Seeds choose the order of threads in the tests of rings.
MIRI := MIRIFLAGS=-Zmiri-disable-isolation PROPTEST_CASES=2 PROPTEST_RNG_SEED=1 cargo +nightly miri test --locked --quiet

miri: ## unsafe code in an interpreter that reports undefined behaviour; needs nightly Rust with miri and rust-src
	$(MIRI) -p syncline-engine --lib prefetch::
	$(MIRI) -p syncline-formats --lib flexnet::
	$(MIRI) -p syncline-protocol --lib
	$(MIRI) -p syncline-protocol --test all lanes::
	$(MIRI) -p syncline-reduction --lib --test kernels
	$(MIRI) -p syncline-transport --lib ring::

# A thread is interrupted at most three times where it need not wait: more orders take hours.
loom: ## model-check shared-memory rings, wake-ups and the completion of operations over all thread interleavings
	LOOM_MAX_PREEMPTIONS=3 RUSTFLAGS="--cfg loom" cargo test --locked --quiet -p syncline-transport -p syncline-executor --lib orders::

# Of one crate, or of the lines that differ from `main`, each by its crate's own tests.
mutants: ## changes of the code that no test notices; CRATE=net-flow for a crate, CRATE=all; needs cargo-mutants
ifdef CRATE
	PROPTEST_RNG_SEED=1 cargo mutants $(if $(filter all,$(CRATE)),--workspace,--package syncline-$(CRATE)) --output target $(ARGS)
else
	mkdir -p target && git diff $(or $(BASE),main) -- crates > target/mutants.diff
	PROPTEST_RNG_SEED=1 cargo mutants --in-diff target/mutants.diff --output target $(ARGS)
endif

wheel: $(VENV)/.tools ## a wheel for this platform, in dist/
	$(BIN)/maturin build --release --locked --quiet --interpreter $(BIN)/python --out dist

web: ## build the script of report.html anew; needs npm
	cd web/report && npm ci --no-audit --no-fund --silent && npm run --silent check && npm run --silent build

figures: setup ## the figures that `make validate` holds, and the error bars of estimates, written again
	$(BIN)/syncline validate runs --figures validation/figures.json --update
	UPDATE=1 $(BIN)/python -m pytest -q tests/estimate/test_error_bars.py

validate: setup ## predictions beside all measured runs and collectives; figures that got worse fail
	$(BIN)/syncline validate runs --figures validation/figures.json
	$(BIN)/syncline validate collectives

training-software: setup ## fit the constants of training software anew, to the rows in validation/runs.csv
	$(BIN)/syncline validate constants --out python/syncline/data/training-software.yaml --force

nccl-machines: setup ## calibrate the machines of the package anew, with the rows in validation/collectives
	$(BIN)/python validation/collectives/machines.py

schema: setup ## write the JSON schemas anew
	$(BIN)/python -c "from syncline.config import schema; print(schema.text(), end='')" > syncline.schema.json
	$(BIN)/python -c "from syncline.design.bandwidth import schema; print(schema.text(), end='')" > syncline-design.schema.json
	$(BIN)/python -c "from syncline.jobs import schema; print(schema.text(), end='')" > syncline-job.schema.json
	$(BIN)/python -c "from syncline.design.joint import schema; print(schema.text(), end='')" > syncline-joint.schema.json
	$(BIN)/python -c "from syncline.testbed import schema; print(schema.text(), end='')" > syncline-testbed.schema.json

transcripts: setup ## write the transcripts of the examples and the generated parts of the docs anew
	UPDATE=1 $(BIN)/python -m pytest -q tests/examples tests/docs

clean: ## remove everything that was built
	rm -rf $(VENV) target dist python/syncline/*.so .mypy_cache .ruff_cache .pytest_cache
	find python tests -name __pycache__ -prune -exec rm -rf {} +
