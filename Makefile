PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check --quiet
ARGS ?= manifests/examples/echo

.PHONY: install up test check bench lock

# What `noctaya up` needs; pip's stamp is the lock file's own copy in the environment.
.venv/local.txt: requirements/local.txt requirements/build.txt
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes -r requirements/build.txt -r requirements/local.txt
	$(PIP) install --no-deps --no-build-isolation --editable .
	cp requirements/local.txt $@

.venv/dev.txt: requirements/dev.txt .venv/local.txt
	$(PIP) install --require-hashes -r requirements/dev.txt
	cp requirements/dev.txt $@

install: .venv/dev.txt

up: .venv/local.txt
	@$(BIN)/noctaya up $(ARGS)

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/python -m hooks.api.crds --check
	$(BIN)/python -m hooks.llmservice.page --check

test: check
	$(BIN)/pytest -n 3 --dist loadfile tests/pure tests/process
	$(BIN)/pytest -n 4 --dist loadfile -m "not alone" tests/cluster
	$(BIN)/pytest -m alone tests/cluster

# In a short form; docs/benchmarks.md is written by `python -m bench --write`.
bench: install
	$(BIN)/python -m bench
	$(BIN)/python -m bench.coldstart_cluster --count 4

# Lock again after a change of the dependencies in pyproject.toml.
LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header
lock: install
	for program in engine fetcher gateway hooks local; do \
	  $(LOCK) --extra $$program pyproject.toml -o requirements/$$program.txt || exit 1; done
	$(LOCK) --group pyproject.toml:build -o requirements/build.txt
	$(LOCK) --extra local --group build --group dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --group pyproject.toml:bench-litellm -o requirements/bench-litellm.txt
	for client in anthropic langchain litellm openai-1 openai-2 openai-3; do \
	  $(LOCK) --group pyproject.toml:client-$$client -o requirements/clients/$$client.txt || exit 1; done
	cd requirements/clients/openai-node && npm install --package-lock-only \
	  --omit-lockfile-registry-resolved --no-audit --no-fund
