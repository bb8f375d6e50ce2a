# make demo   the README's example, and a continuous treatment
# make test   the tests, in two processes; make test WORKERS=4 in four, WORKERS=0 in one
# make check  format, lint, types and tests: what runs before a commit
# make fuzz   thousands of random calls; each must give an answer or a clear error
# make docs   the site, every chapter executed, in build/docs; make docs-check opens every page of it in Chromium
# make dist   the wheel and the source archive, in dist
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
DOCS_READY := $(VENV)/docs-ready
MATHJAX := build/static/mathjax
WORKERS ?= 2
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: demo test lint check slow fuzz docs docs-check dist clean

$(READY): pyproject.toml constraints.txt
	@echo "Installing riesz and the packages that its tests need into $(VENV), at the versions in constraints.txt:"
	@$(PYTHON) -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
		print("  " + "\n  ".join(sorted({*p["dependencies"], *p["optional-dependencies"]["dev"]})))'
	@echo "The largest is torch. On Linux it brings several gigabytes of CUDA, unless a CPU-only torch is in $(VENV) already."
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable ".[dev]"
	touch $(READY)

$(DOCS_READY): $(READY)
	$(PIP) --editable ".[dev,docs]"
	touch $(DOCS_READY)

$(MATHJAX): vignettes/fetch_mathjax.py
	$(PYTHON) vignettes/fetch_mathjax.py $(dir $(MATHJAX))

demo: $(READY)
	@$(BIN)/python benchmarks/demo.py

test: $(READY)
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(WORKERS) --dist worksteal

slow: $(READY)
	$(BIN)/python -m pytest -m slow

fuzz: $(READY)
	cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m fuzz --linear 3000 --network 300

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint test

docs: $(DOCS_READY) $(MATHJAX)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx --fail-on-warning --keep-going -d build/doctrees vignettes build/docs
	@echo "The site is in build/docs: open build/docs/index.html"

docs-check: docs
	$(BIN)/python -m pytest vignettes/test_check_site.py
	$(BIN)/python vignettes/check_site.py build/docs

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
