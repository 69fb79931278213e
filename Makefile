# Everything runs in .venv, made by `make setup`. PYTHON picks the interpreter that makes it.
PYTHON ?= python3
VENV := .venv/bin
TEST_PYTHON ?= $(CURDIR)/$(VENV)/python
TEST_DIR ?= .

.PHONY: setup run test check bench bench-reference docs vendor clean

setup:            ## environment with everything the tests need
	$(PYTHON) -m venv .venv
	$(VENV)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,xtb,gui,dask]'

run:              ## the main job: audit the example model on the embedded data
	$(VENV)/mlipaudit run --models examples/example_model.zip --run-mode dev --output results

test:             ## the default test run, minutes on two cores; a file stays in one process, for it shares fixtures
	cd $(TEST_DIR) && $(TEST_PYTHON) -m pytest --numprocesses 2 --dist loadfile

check:            ## lint and types
	$(VENV)/ruff check . && $(VENV)/ruff format --check . && $(VENV)/mypy

bench:            ## speed ratios, measured in one run
	GLIBC_TUNABLES=glibc.malloc.hugetlb=1 $(VENV)/python bench/simulate_and_predict.py
	$(VENV)/python bench/workers.py

bench-reference:  ## the same audit by mlipaudit 0.1.8, in an environment of its own, and by ours
	$(VENV)/python bench/against_reference.py

docs:             ## regenerate the pages that are made from declarations
	$(VENV)/python docs/generate.py

vendor:           ## the libraries that reports carry, anew from npm
	$(VENV)/python mlipaudit/reporting/assets/vendor/update.py

clean:
	rm -rf .venv results build dist
