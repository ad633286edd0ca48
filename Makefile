# make demo   the first tutorial, run without a browser: findings, and demo-report.html
# make lab    the same notebook in JupyterLab
# make test   lint and all tests, browser tests included
# make docs   the documentation as a site, in build/docs; no page loads anything from the network
# Each creates its virtual environment, .venv, the first time.

PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Jupyter requires this in a container, where every user is root.
AS_ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)
LOWEST_TESTS = tests/rule_engine tests/tensors tests/baselines tests/magics/test_short_tracebacks.py tests/test_results.py
# Trackers require an older pandas than this torch's NumPy, and pandas runs with NumPy 2 from here on.
LOWEST_PANDAS = 'pandas>=2.2.3'
TYPESCRIPT = typescript@5.9.3
export PIP_CONSTRAINT = $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export OMP_NUM_THREADS = 1
# Otherwise every kernel and every test process compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo lab test suite lint style types browser pictures lowest lowest-trainers lowest-trackers rules docs kernels binder-check clean

demo: $(VENV)/lab
	$(BIN)/nbdebug demo

lab: $(VENV)/lab
	$(BIN)/jupyter lab $(AS_ROOT) notebooks/01_my_model_does_not_learn.ipynb

test: style
	$(MAKE) --jobs 2 suite types

# Four workers for two cores, since tests that drive JupyterLab, kernels and browsers mostly wait.
suite: browser
	$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder --durations 40

lint: style types

style: $(VENV)/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/test
	$(BIN)/mypy
	@if command -v npx >/dev/null; then npx --yes --package $(TYPESCRIPT) tsc --project nbdebug; \
	else echo "=== SKIPPED: the .js files are not type-checked, since node is not installed ==="; fi

# Use an installed Chromium; otherwise install Debian's (as root) or Playwright's.
browser: $(VENV)/test
	@if $(BIN)/python -m tests.browser; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && apt-get install -y -qq chromium; \
	else $(BIN)/playwright install chromium; fi \
	|| echo "=== NO BROWSER: the browser tests will be skipped; install Chromium, or set CHROMIUM to its path ==="

pictures: $(VENV)/test ## Retakes the pictures and the animation of the README in JupyterLab.
	$(BIN)/python -m tests.lab.pictures
	$(BIN)/python -m tests.lab.animation

lowest: $(VENV)/python ## Runs a fast part of the tests with the lowest versions of the dependencies in pyproject.toml.
	$(BIN)/pip install --quiet uv
	$(BIN)/uv venv --quiet --clear --python $(PYTHON) $(VENV)-lowest
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest --resolution lowest-direct .
	$(BIN)/uv pip install --quiet --python $(VENV)-lowest pytest pytest-xdist pytest-rerunfailures
	$(VENV)-lowest/bin/python -m pytest -n 2 $(LOWEST_TESTS)

lowest-trainers lowest-trackers: lowest-%: ## Tests the lowest versions of trainers or trackers in pyproject.toml, with this torch.
	$(PYTHON) -m venv --clear $(VENV)-$*
	$(VENV)-$*/bin/pip install --quiet uv torch pytest pytest-xdist pytest-rerunfailures
	$(VENV)-$*/bin/pip install --quiet .
	env --unset PIP_CONSTRAINT $(VENV)-$*/bin/uv pip install --quiet --python $(VENV)-$* \
		--resolution lowest-direct '.[$*]' $(LOWEST_PANDAS)
	$(VENV)-$*/bin/python -m pytest -n 2 $(if $(filter trainers,$*),tests/integrations,tests/trackers)

rules: $(VENV)/test ## Rewrites the table of rules in docs/rules.md.
	$(BIN)/python -m tests.rule_table

docs: $(VENV)/docs ## Builds the site in build/docs; a warning, such as a link without a target, is an error.
	$(BIN)/python -m docs.site_pages build/docs-source
	$(BIN)/python -m sphinx --quiet --fresh-env -W --keep-going -c docs build/docs-source build/docs

kernels: $(VENV)/test ## Tests buttons and interrupts in all installed kernels; make test runs these too.
	$(BIN)/python -m pytest tests/kernels

binder-check: ## Builds the environment of binder/ from its own files, runs all tutorials in it, and opens JupyterLab.
	bash binder/check

$(VENV)/python: 
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/lab: $(VENV)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --editable '.[lab]'
	touch $@

$(VENV)/test: $(VENV)/lab
	$(BIN)/pip install --quiet --editable '.[lab,test]'
	$(BIN)/pip install --quiet --no-deps fastai
	touch $@

$(VENV)/docs: $(VENV)/test
	$(BIN)/pip install --quiet --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-trainers $(VENV)-trackers build/docs build/docs-source .pytest_cache .mypy_cache .ruff_cache demo-report.html
