# `make help` lists the targets, and how long each takes. On a fresh machine (Linux, root, Go, Python 3.11)
# `make test` and `make demo` install and build by themselves what they need.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
# Images of Python set it; tests start hundreds of processes, and each would compile all of lbcf.
unexport PYTHONDONTWRITEBYTECODE
BIN := $(VENV)/bin
TOUCHED := $(VENV)/.installed
PIP_INSTALL := $(BIN)/pip install --quiet --require-hashes --no-deps
# xds-protos has an older opentelemetry.proto in it: the exporter's own must come last.
OWN_PROTO = sed -n '/^opentelemetry-proto==/,/\# via/{/\#/!p}' requirements/dev.txt \
	| $(PIP_INSTALL) --force-reinstall --requirement /dev/stdin
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --custom-compile-command "make lock" --no-emit-index-url
# One version of everything, wherever it is installed.
SAME := --constraint requirements/dev.txt
# Tests wait more than they compute: three at a time use two cores well. Each worker has
# its own control plane; one file stays with one worker.
WORKERS ?= 3
CORE := $(addprefix tests/,core wire controller deregistrar executor runtime process)
ALONE := not cluster and not nodes and not haproxy and not envoy and not prometheus and not interop and not helm
# SECONDS is a variable of bash, too: only one from make's own command line counts.
SOAK_SECONDS := $(if $(filter command line,$(origin SECONDS)),$(SECONDS),600)

##@ Find your way

.PHONY: help
help: ## at once | List the targets.
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {split($$2, told, " [|] "); \
		printf "  %-10s %8s  %s\n", $$1, told[1], told[2]}' $(MAKEFILE_LIST)
	@printf '\nTimes are those of two cores, with everything installed and built (~: roughly).\n'

##@ While you write

.PHONY: test-core
test-core: install ## 30 s | Run the tests of decisions: core, wire, controller, deregistrar, executor, runtime, process.
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal --hypothesis-profile quick -m "$(ALONE)" $(CORE) $(TEST_ARGS)

.PHONY: lint
lint: install ## 5 s | Check style and formatting.
	$(BIN)/ruff check
	$(BIN)/ruff format --check

.PHONY: layers
layers: install ## 5 s | Check who imports whom.
	$(BIN)/lint-imports

.PHONY: types
types: install ## 1 min | Check types; the first time longer.
	$(BIN)/mypy

.PHONY: fmt
fmt: install ## 5 s | Format, and mend what can be mended by itself.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: hooks
hooks: install ## at once | Have git ask lint, layers and types before each commit.
	$(BIN)/pre-commit install

##@ Before you hand over

.PHONY: test-fast
test-fast: install ## ~10 min | Run the tests that need no cluster, no nodes and no HAProxy.
	$(BIN)/pytest -m "$(ALONE)" $(TEST_ARGS)

# Files are begun in the order of tests/conftest.py, not by their number of tests alone.
.PHONY: test
test: build ## ~30 min | Run all tests, on a real kube-apiserver, real nodes and a real HAProxy.
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TEST_ARGS)

.PHONY: check
check: lint types layers test ## ~30 min | All that CI checks before the demo: lint, types, layers, test.

# Workers share the cores with the loops: with three of them, an hour is not enough on two cores.
.PHONY: stress
stress: WORKERS = 5
stress: build ## ~50 min | Run all tests beside four busy loops, in a drawn order (STRESS_ARGS=...).
	$(BIN)/python -m tests.lab.stress $(STRESS_ARGS) -- -n $(WORKERS) --dist loadfile $(TEST_ARGS)

.PHONY: interop
interop: install ## ~10 min | Run drivers and emulators against clients and servers of other people.
	$(PIP_INSTALL) --requirement requirements/interop.txt
	$(BIN)/pytest -m interop tests/interop $(TEST_ARGS)

.PHONY: orders
orders: build ## ~5 min | End twenty namespaces, everything in them deleted in drawn orders.
	LBCF_TEST_ORDERS=20 $(BIN)/pytest tests/compat/served/test_endings.py

##@ Search the protocol

.PHONY: model
model: packages ## ~45 min | Search all states of the lifecycle's protocol, and all fair runs; then let SPIN do it too.
	pypy3 -m tests.lab.model --page docs/counterexamples.md

.PHONY: sweep
sweep: install ## ~5 h | Fail each step of both processes in virtual time, each run held against the model; then hunt mutants (SWEEP_ARGS=...).
	$(BIN)/python -m tests.lab.sweep $(SWEEP_ARGS)
	$(BIN)/python -m tests.lab.sweep --mutants

.PHONY: survivors
survivors: install ## ~20 min | Change lbcf.core, expression by expression, find changes that no test notices.
	$(PIP_INSTALL) --requirement requirements/survivors.txt
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m tests.lab.survivors $(SURVIVORS_ARGS)

.PHONY: faults
faults: build ## ~20 min | Sampled crashes, pauses, twins and bad networks on a real API server, each step held against the model (FAULTS_ARGS=...).
	$(BIN)/python -m tests.lab.faults $(FAULTS_ARGS)

.PHONY: specs
specs: build ## ~45 min | Walk the space of specs on a real API server: 10,000 changes of all fields (SPECS_ARGS=...).
	$(BIN)/python -m tests.lab.specs --kills 60 $(SPECS_ARGS)

##@ See it on real nodes

.PHONY: demo
demo: build ## 3 min | Rollouts, drains and kills on three real nodes under load, each step held against the model (DEMO_ARGS=...).
	$(BIN)/python -m tests.lab.demo $(DEMO_ARGS)

.PHONY: nodes
nodes: build ## ~10 min | What happens to nodes, done to three real ones under load (NODES_ARGS=...).
	$(BIN)/python -m tests.lab.nodes --page docs/nodes.md $(NODES_ARGS)
	$(BIN)/python -m tests.lab.nodes --naive $(NODES_ARGS)

.PHONY: e2e
e2e: build ## ~10 min | Install everything into three real nodes, stir it under load, uninstall it; each step is held against the model.
	$(BIN)/python -m tests.lab.installed

.PHONY: kubernetes-e2e
kubernetes-e2e: build ## ~1 h | Run Kubernetes' own tests of Services of type LoadBalancer against Envoy (E2E_ARGS=...).
	$(BIN)/python -m tests.lab.kubernetes_e2e $(E2E_ARGS)

.PHONY: services
services: build ## ~5 min | Make, roll and delete 500 Services of type LoadBalancer, with kills (SERVICES_ARGS=...).
	$(BIN)/python -m tests.lab.services --kills 3 $(SERVICES_ARGS)

.PHONY: soak
soak: build ## 20 min | Traffic while all of ours is killed every second (SECONDS=600), or away; how long ready pods are served.
	$(BIN)/python -m tests.lab.soak --seconds $(SOAK_SECONDS)
	$(BIN)/python -m tests.lab.soak --outage
	$(BIN)/python -m tests.lab.soak --waves
	$(BIN)/python -m tests.lab.soak --served --seconds 120
	$(BIN)/python -m tests.lab.soak --served --trouble --seconds 120

.PHONY: failover
failover: build ## ~10 min | Kill leaders and cut their power, and measure when others go on (FAILOVER_ARGS=...).
	$(BIN)/python -m tests.lab.failover $(FAILOVER_ARGS)

.PHONY: shards
shards: build ## ~10 min | Measure what each of four shards holds and reads, and when others go on (SHARDS_ARGS=...).
	$(BIN)/python -m tests.lab.shards $(SHARDS_ARGS)

.PHONY: bench
bench: build ## ~40 min | Measure speed, cost and memory on a real control plane (BENCH_ARGS=...).
	$(BIN)/python -m tests.lab.bench $(BENCH_ARGS)

.PHONY: batches
batches: install ## ~3 min | Measure members registered in batches and singly, driver by driver (BATCHES_ARGS=...).
	$(BIN)/python -m tests.lab.batches $(BATCHES_ARGS)

##@ Make what people get

.PHONY: pictures
pictures: build ## ~5 min | Capture what docs/kubectl.md shows of a terminal, draw the dashboard of docs/metrics.md.
	$(BIN)/python -m tests.docs.pictures
	$(PIP_INSTALL) --requirement requirements/pictures.txt
	$(BIN)/python -m tests.monitoring.picture

.PHONY: images
images: install ## ~2 min | Make our container images, without a container engine.
	$(BIN)/python -m images $(IMAGES)

.PHONY: chart
chart: build ## ~3 min | Make the Helm chart in build/chart, and try it with Helm itself.
	PATH="$$($(BIN)/python -m tests.lab.cluster build | head -1):$$PATH" $(BIN)/python -m manifests.helm
	$(BIN)/pytest -m helm tests/helm $(TEST_ARGS)

.PHONY: release
release: build ## ~5 min | Make all that is published of a version, in dist (RELEASE_ARGS=...).
	PATH="$$($(BIN)/python -m tests.lab.cluster build | head -1):$$PATH" $(BIN)/python -m manifests.release $(RELEASE_ARGS)

##@ Install and build

.PHONY: install
install: $(TOUCHED) ## 1 min | Make the virtual environment, of just what requirements/ names.

$(TOUCHED): pyproject.toml requirements/dev.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) --requirement requirements/dev.txt
	$(OWN_PROTO)
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	touch $@

.PHONY: packages
packages: install ## 1 min | Install the Debian packages that are missing (HAProxy, containerd, ...), fetch Prometheus.
	$(BIN)/python -m tests.lab.cluster packages

.PHONY: build
build: packages ## 10 min | Build Kubernetes and the container images, fetch kinds of others; once, then 5 s.
	$(BIN)/python -m tests.lab.cluster build

# Where a tool is missing that the lock itself brings, an older lock brings it.
.PHONY: lock
lock: $(TOUCHED) ## 1 min | Choose versions anew for pyproject.toml, and write them down with hashes.
	$(LOCK) --group dev --all-extras --upgrade --output-file requirements/dev.txt
	$(LOCK) --group interop --all-extras $(SAME) --output-file requirements/interop.txt
	$(LOCK) --group pictures --all-extras $(SAME) --output-file requirements/pictures.txt
	$(LOCK) --group survivors --all-extras $(SAME) --output-file requirements/survivors.txt
	$(LOCK) $(SAME) --output-file requirements/image.txt
	$(LOCK) --extra admission $(SAME) --output-file requirements/image-admission.txt
	$(LOCK) --extra devices $(SAME) --output-file requirements/image-devices.txt
	$(LOCK) --extra elbv2 $(SAME) --output-file requirements/image-elbv2.txt
	$(LOCK) --extra envoy $(SAME) --output-file requirements/image-envoy.txt

.PHONY: clean
clean: ## at once | Remove the virtual environment and caches of tools.
	rm -rf mutants $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
