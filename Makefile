# GPU Ledger. `make` alone prints what there is.
# Everything needed is made by itself: .venv for Python's packages, .tools for programs that are
# not installed, var for the demo's state.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON_VENV := .venv/bin/python
DEMO_FLAGS ?=
HOSTS_FLAGS ?=
BENCH ?=
CONTRACT ?= tests/contract/kubernetes tests/contract/quota_enforcer tests/contract/workload_evictor
TEST ?= tests
TEST_FLAGS ?=
TEST_MARKS ?= not soak
TEST_PROCESSES ?= 3
REQUIREMENTS := build base embedded development peers

export PATH := $(CURDIR)/.tools/prometheus:$(PATH)

.PHONY: help
help: ## Print this.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

.PHONY: demo
demo: ## A month of two clusters, metered and invoiced (DEMO_FLAGS="--exit --json").
	@bin/prepare embedded
	@exec $(PYTHON_VENV) manage.py demo $(DEMO_FLAGS)

# Each process would else write 12,000 asserts anew, in 13 s: pytest keeps them as bytecode.
test soak: export PYTHONDONTWRITEBYTECODE :=

.PHONY: test
test: ## The tests, with samples of what is large (TEST=tests/quotas, TEST_FLAGS="--durations=20").
	@bin/prepare development
	@$(PYTHON_VENV) bin/left_out.py
	@$(PYTHON_VENV) -m pytest -n $(TEST_PROCESSES) --dist worksteal -m "$(TEST_MARKS)" $(TEST_FLAGS) $(TEST)

.PHONY: soak
soak: ## The rest of the tests: everything large, whole.
	@bin/prepare development
	@$(PYTHON_VENV) -m pytest -n $(TEST_PROCESSES) --dist worksteal -m soak $(TEST_FLAGS) $(TEST)

.PHONY: contract
contract: ## The Kubernetes contract, simulated or a cluster's (KUBECONFIG=path).
	@bin/prepare development
	@CONTRACT_KUBECONFIG="$(KUBECONFIG)" $(PYTHON_VENV) -m pytest \
	  -o addopts="--import-mode=importlib -rfE" $(CONTRACT)

.PHONY: check
check: ## Lint, types, architecture, migrations, OpenAPI, docs: each with its seconds.
	@bin/prepare development
	@$(PYTHON_VENV) bin/check.py

.PHONY: bench
bench: ## Figures against their limits (BENCH=name for one, BENCH=smoke for all, small).
	@bin/prepare development
	@$(PYTHON_VENV) -m bench $(BENCH)

.PHONY: hosts
hosts: ## The service on several hosts that are lost (HOSTS_FLAGS="--clusters 4 --hours 48").
	@bin/prepare development
	@exec $(PYTHON_VENV) -m simulator.hosts $(HOSTS_FLAGS)

.PHONY: mutants
mutants: ## Planted bugs that the tests must catch (20 minutes; not part of CI).
	@bin/prepare development
	@$(PYTHON_VENV) bin/mutants.py

.PHONY: format
format: ## Write every file as the formatter has it.
	@bin/prepare development
	@$(PYTHON_VENV) -m ruff check --fix-only --quiet .
	@$(PYTHON_VENV) -m ruff format .

.PHONY: client
client: ## The typed Python client and the command gl, as a wheel and in .venv.
	@bin/prepare development
	@uv=$$(bin/prepare uv) && $(PYTHON_VENV) bin/client.py build "$$uv"

.PHONY: lock
lock: ## Resolve requirements/*.in into locked requirements/*.txt with hashes.
	@uv=$$(bin/prepare uv) && for name in $(REQUIREMENTS); do \
	  "$$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header requirements/$$name.in -o requirements/$$name.txt \
	    || exit 1; done && \
	"$$uv" pip compile --quiet --python-version 3.12 --generate-hashes --no-emit-index-url \
	  --no-header requirements/focus-validator.in -o requirements/focus-validator.txt && \
	"$$uv" pip compile --quiet --no-deps --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header requirements/helm.in -o requirements/helm.txt

.PHONY: openapi
openapi: ## Write docs/reference/openapi.yaml anew.
	@bin/prepare development
	@DJANGO_SETTINGS_MODULE=config.settings.test $(PYTHON_VENV) manage.py spectacular \
	  --validate --fail-on-warn --file docs/reference/openapi.yaml

.PHONY: messages
messages: ## Add new texts of pages to the German catalogue, and compile it.
	@bin/prepare development
	@$(PYTHON_VENV) bin/messages.py write

.PHONY: pictures
pictures: ## The pictures of README and docs, of a running demo, or of one that it starts.
	@bin/prepare development
	@if [ -f var/environment.json ]; then $(PYTHON_VENV) bin/pictures.py; \
	  else $(PYTHON_VENV) manage.py demo --exit --pictures; fi

.PHONY: manifests
manifests: ## The plain manifests of deploy/kubernetes, rendered from the Helm chart.
	@bin/prepare development
	@$(PYTHON_VENV) bin/chart.py write

.PHONY: docs
docs: ## The documentation as a site in var/docs, with reference made of the code.
	@bin/prepare development
	@$(PYTHON_VENV) bin/docs.py write

.PHONY: clean
clean: ## Forget the demo: its databases, logs and documents.
	@bin/prepare forget
