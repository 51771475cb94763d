# Two commands do everything: `make demo` and `make test`.  Both set up .venv by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(BIN)/ecmproto
PARALLEL := $(BIN)/pytest -n auto --dist worksteal
FUZZ_TIME ?= 60s
MUTANTS ?= 60
QUICK ?= tests/codec tests/formats tests/mechanisms $(wildcard tests/test_*.py)
KERNEL_TESTS := $(addprefix tests/,batch columns capture engine filter stats replay mechanisms lab \
	cli/test_dissect_large.py cli/test_dissect_columns.py kernels)

.PHONY: demo quick test test-all lint unit thorough every alone coverage boundscheck mutants bench fuzz docs references papers pcaps kernels wheel wheel-check packages release oldest newest clean

$(VENV)/ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[jit]'
	touch $@

$(VENV)/ready-dev: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group dev
	touch $@

demo: $(VENV)/ready  ## the main job on the bundled captures
	@$(RUN) demo

quick: $(VENV)/ready-dev  ## the inner loop: formats, codec and mechanisms; QUICK names other folders of tests
	$(PARALLEL) -m 'not alone and not thorough and not slow' $(QUICK)

test: lint unit  ## what a newcomer runs: some eleven minutes on two cores, the first time

test-all: lint every alone  ## all tests; CI runs them in two jobs

lint: $(VENV)/ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@# Workers have seconds to start, which a busy machine may not give them: 2 is no verdict.
	MYPY_NUM_WORKERS=2 $(BIN)/mypy || { [ $$? = 2 ] && $(BIN)/mypy; }
	$(BIN)/lint-imports
	$(BIN)/proselint check *.md docs  # clichés, archaisms and redundancies; .proselintrc.json has its settings

unit: $(VENV)/ready-dev
	$(PARALLEL) -m 'not alone and not thorough'

thorough: $(VENV)/ready-dev
	$(PARALLEL) -m 'thorough and not alone'

every: $(VENV)/ready-dev  # unit and thorough in one: each start of pytest imports all files of tests
	$(PARALLEL) -m 'not alone'

alone: $(VENV)/ready-dev
	$(BIN)/pytest -m alone tests/kernels tests/live tests/testing

coverage: $(VENV)/ready-dev  ## with the kernels run as plain Python, so that their lines count too
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest
	$(BIN)/coverage combine
	$(BIN)/coverage report

boundscheck: $(VENV)/ready-dev  ## the tests that drive kernels, each access to an array checked
	NUMBA_BOUNDSCHECK=1 $(PARALLEL) -m 'not alone' $(KERNEL_TESTS)

mutants: $(VENV)/ready-dev  ## MUTANTS changes of one comparison or number, 0 for all: those that no test notices
	$(BIN)/python -m tests.mutants $(MUTANTS)

bench: $(VENV)/ready-dev  ## figures beside peers, measured in the same run
	$(BIN)/python -m bench

fuzz: $(VENV)/ready-dev  ## FUZZ_TIME each of what is spoilt, then of what coverage guides to; goes on where it ended
	$(RUN) fuzz decode --duration $(FUZZ_TIME) -w .fuzz/frames
	for what in captures filters specs messages; do \
		$(RUN) fuzz decode --what $$what --duration $(FUZZ_TIME) -w .fuzz/$$what || exit; \
	done
	@if $(BIN)/python -c 'import atheris' 2>/dev/null; then \
		for target in frames columns captures filters specs messages; do \
			$(RUN) fuzz guided $$target --duration $(FUZZ_TIME) -w .fuzz/guided/$$target || exit; \
		done; \
	else \
		echo '*** NOT DONE: what coverage guides to needs atheris, which is not installed here' >&2; \
	fi

kernels: $(VENV)/ready-dev  ## the library of kernels, in the tree, used until sources change; DEBUG=1 adds line tables and bounds checks
	$(if $(DEBUG),NUMBA_DEBUGINFO=1 NUMBA_BOUNDSCHECK=1) $(BIN)/python -m ecmproto_cli.prebuilding

wheel: $(VENV)/ready-dev  ## dist/: a wheel with the library of kernels, for any Python on this platform
	$(BIN)/python -m ecmproto_cli.prebuilding build/ecmproto-kernels.so
	ECMPROTO_LIBRARY="$(CURDIR)/build/ecmproto-kernels.so" $(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

wheel-check: wheel  ## its first minute in an empty environment, beside that of others: nothing is compiled
	$(BIN)/python -m bench firstminute --gate

docs: references  ## the documentation site, in build/site/html: warnings are errors, and no network is used
	$(BIN)/python -m docs.site

references: $(VENV)/ready-dev  ## the pages of fields, parameters, scenarios, rules and licences, from what they describe
	$(BIN)/python -m docs.reference
	$(BIN)/python -m docs.parameter_reference
	$(BIN)/python -m docs.scenario_reference
	$(BIN)/python -m docs.rule_reference
	$(BIN)/python -m docs.glossary_reference
	$(BIN)/python -m docs.option_reference
	$(BIN)/python -m docs.licences

papers: $(VENV)/ready-dev  ## docs/papers: every published experiment beside ours; goes on where it ended
	$(RUN) lab papers -w docs/papers --rows .papers.ndjson

pcaps: $(VENV)/ready-dev  ## the bundled captures, from their manifest
	$(BIN)/python -m pcaps

packages: $(VENV)/ready-dev  ## build/packages: the conda recipe rendered, the Debian package built and checked by lintian
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group packages
	$(BIN)/python -m docs.upstream.packages build/packages

release: $(VENV)/ready-release  ## dist/: sdist and wheels, built twice, installed where nothing else is, with their bill of materials
	$(BIN)/python .ci/release.py

$(VENV)/ready-release: $(VENV)/ready
	@# What needs an extra is compiled too.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --group release
	touch $@

oldest newest: $(VENV)/ready-release  ## some tests with the oldest, and the newest, dependencies that are allowed
	$(BIN)/python .ci/bounds.py $@ .venv-$@

clean:
	rm -rf $(VENV) .venv-* build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
