# Every target makes what it needs in .venv and does nothing twice.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
PYTEST := $(BIN)/python -m pytest
TWO_AT_A_TIME := $(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder

.PHONY: install demo test prometheus test-unit test-faults test-conformance lint format bench lock clean

install: $(INSTALLED)

$(INSTALLED): requirements.lock pyproject.toml
	@sh deploy/check-prerequisites.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(INSTALLED)
	@$(BIN)/python -m samples.demo

# First what needs no Kafka; then the rest, with a Kafka and a Spark for each of two processes.
test: lint prometheus
	$(PYTEST) -n 2 --ignore tests/conformance --ignore tests/integration --ignore tests/faults
	$(TWO_AT_A_TIME) -m "not slow" tests/faults tests/integration

# Reads the metrics of a real broker, and checks the alert rules.
prometheus:
	@sh deploy/install-prometheus.sh

# Kills, outages, torn files, poison, lost rights: all of them, many minutes.
test-faults: $(INSTALLED)
	$(TWO_AT_A_TIME) tests/faults $(addprefix tests/integration/test_,access.py access_lost.py end_to_end.py name_poisoning.py)

# Minutes, and needs the NITF workload beside the checkout.
test-conformance: $(INSTALLED)
	$(PYTEST) tests/conformance

test-unit: $(INSTALLED)
	$(PYTEST) -n 2 tests/unit broker subscriptions

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(INSTALLED)
	$(BIN)/xmlbroker bench parse

# Resolves the ranges of pyproject.toml anew; run it to take newer versions. The image has no more
# than it needs to run, in the same versions.
COMPILE := .venv-lock/bin/uv pip compile --universal --python-version 3.11 \
	--generate-hashes --no-header --no-annotate --no-emit-index-url
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	$(COMPILE) pyproject.toml --group dev --upgrade --output-file requirements.lock
	$(COMPILE) pyproject.toml --constraints requirements.lock --upgrade --output-file deploy/requirements.lock
	$(COMPILE) --group build --constraints requirements.lock --upgrade --output-file deploy/build.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis
