# `make help` lists the targets. On a fresh machine (Linux, root, Go, Python 3.11)
# `make test` and `make demo` install and build by themselves what they need.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOUCHED := $(VENV)/.installed
PIP_INSTALL := $(BIN)/pip install --quiet --require-hashes --no-deps
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command "make lock" --no-emit-index-url
# One version of everything, wherever it is installed.
SAME := --constraint requirements/dev.txt
# Tests wait more than they compute: three at a time use two cores well. Each worker has
# its own control plane; one file stays with one worker.
WORKERS ?= 3
# SECONDS is a variable of bash, too: only one from make's own command line counts.
SOAK_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600)

.PHONY: help
help: ## List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: check
check: lint types layers test ## All that CI checks before the demo.

.PHONY: test
test: build ## Run all tests, on a real kube-apiserver, real nodes and a real HAProxy.
	$(BIN)/pytest -n $(WORKERS) --dist loadfile $(TEST_ARGS)

.PHONY: test-fast
test-fast: install ## Run the tests that need no cluster, no nodes and no HAProxy.
	$(BIN)/pytest -m "not cluster and not nodes and not haproxy and not prometheus and not interop and not helm" $(TEST_ARGS)

.PHONY: interop
interop: install ## Run drivers and emulators against clients and servers of other people.
	$(PIP_INSTALL) --requirement requirements/interop.txt
	$(BIN)/pytest -m interop tests/interop $(TEST_ARGS)

.PHONY: sweep
sweep: install ## Fail each step of both processes in virtual time, and hunt mutants.
	$(BIN)/python -m tests.lab.sweep $(SWEEP_ARGS)
	$(BIN)/python -m tests.lab.sweep --mutants

.PHONY: demo
demo: build ## Rollouts, drains and kills on three real nodes under load (DEMO_ARGS=...).
	$(BIN)/python -m tests.lab.demo $(DEMO_ARGS)

.PHONY: nodes
nodes: build ## What happens to nodes, done to three real ones under load (NODES_ARGS=...).
	$(BIN)/python -m tests.lab.nodes --page docs/nodes.md $(NODES_ARGS)
	$(BIN)/python -m tests.lab.nodes --naive $(NODES_ARGS)

.PHONY: e2e
e2e: build ## Install everything into three real nodes, stir it under load, uninstall it.
	$(BIN)/python -m tests.lab.installed

.PHONY: faults
faults: build ## Sampled crashes, pauses, twins and bad networks on a real API server (FAULTS_ARGS=...).
	$(BIN)/python -m tests.lab.faults $(FAULTS_ARGS)

.PHONY: soak
soak: build ## Traffic through a real HAProxy while all of ours is killed every second (SECONDS=600).
	$(BIN)/python -m tests.lab.soak --seconds $(SOAK_SECONDS)

.PHONY: bench
bench: build ## Measure speed, cost and memory on a real control plane (BENCH_ARGS=...).
	$(BIN)/python -m tests.lab.bench $(BENCH_ARGS)

.PHONY: pictures
pictures: build ## Capture what docs/kubectl.md shows of a terminal, draw the dashboard of docs/metrics.md.
	$(BIN)/python -m tests.docs.pictures
	$(PIP_INSTALL) --requirement requirements/pictures.txt
	$(BIN)/python -m tests.monitoring.picture

.PHONY: model
model: packages ## Search all states of the lifecycle's protocol, then let SPIN do it too.
	pypy3 -m tests.lab.model --page docs/counterexamples.md

.PHONY: orders
orders: build ## End twenty namespaces, everything in them deleted in drawn orders.
	LBCF_TEST_ORDERS=20 $(BIN)/pytest tests/compat/served/test_endings.py

.PHONY: lint
lint: install ## Check style and formatting.
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: types
types: install ## Check types.
	$(BIN)/mypy

.PHONY: layers
layers: install ## Check who imports whom.
	$(BIN)/lint-imports

.PHONY: fmt
fmt: install ## Format, and mend what can be mended by itself.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: install
install: $(TOUCHED) ## Make the virtual environment, of just what requirements/ names.

$(TOUCHED): pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --requirement requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

# Where a tool is missing that the lock itself brings, an older lock brings it.
.PHONY: lock
lock: $(TOUCHED) ## Choose versions anew for pyproject.toml, and write them down with hashes.
	$(LOCK) --group dev --all-extras --upgrade --output-file requirements/dev.txt
	$(LOCK) --group interop --all-extras $(SAME) --output-file requirements/interop.txt
	$(LOCK) --group pictures --all-extras $(SAME) --output-file requirements/pictures.txt
	$(LOCK) $(SAME) --output-file requirements/image.txt
	$(LOCK) --extra admission $(SAME) --output-file requirements/image-admission.txt
	$(LOCK) --extra devices $(SAME) --output-file requirements/image-devices.txt
	$(LOCK) --extra elbv2 $(SAME) --output-file requirements/image-elbv2.txt

.PHONY: packages
packages: install ## Install the Debian packages that are missing (HAProxy, containerd, ...), fetch Prometheus.
	$(BIN)/python -m tests.lab.cluster packages

.PHONY: build
build: packages ## Build Kubernetes and the container images, fetch kinds of others, where not done yet.
	$(BIN)/python -m tests.lab.cluster build

.PHONY: images
images: install ## Make our container images, without a container engine.
	$(BIN)/python -m images $(IMAGES)

.PHONY: chart
chart: build ## Make the Helm chart in build/chart, and try it with Helm itself.
	PATH="$$($(BIN)/python -m tests.lab.cluster build | head -1):$$PATH" $(BIN)/python -m manifests.helm
	$(BIN)/pytest -m helm tests/helm $(TEST_ARGS)

.PHONY: clean
clean: ## Remove the virtual environment and caches of tools.
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
