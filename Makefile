# On a fresh machine `make demo` and `make test` do everything: they make a virtual environment in
# $(VENV), install this package into it, and run.

VENV ?= .venv
PYTHON ?= python3
# For two cores: tests of batch systems mostly wait for them.
PYTEST_ARGS ?= -n 4 --dist worksteal
CHAOS_ROUNDS ?= 400
EDIT_ROUNDS ?= 200
MIXES ?= 50
FUZZ ?= 10000
SLIPS ?= 5
# What of the tests `make coverage` runs.
TESTS ?= tests
CHAOS_SEED ?= $(shell date +%s)
# Which releases of FAST-HEP are installed: those that were tested. Empty: the newest.
CONSTRAINTS ?= .ci/tested.txt
RUN = "$(VENV)/bin/python"
# Its own environment: with fasthep-distributed, FAST-HEP compiles other plans.
BENCH_VENV ?= .venv-bench
BENCH_ARGS ?= --write docs/benchmarks.md

.PHONY: help demo test unit bytecode lint audit messages house mistakes reference man docs newest oldest nightly bench clean coverage pictures release

help:
	@echo "make demo      install, make events, run the demo analysis; shows where its plots are"
	@echo "make test      install and run all checks and tests"
	@echo "make unit      the fast tests only"
	@echo "make lint      formatter, linter, type checker"
	@echo "make audit     look up known holes in the packages that we need"
	@echo "make messages  list every text that a user may read, with file and line"
	@echo "make house     count lines, rooms, patches, and what a first run loads of the package"
	@echo "make mistakes  tell which part of a check refuses each mistake that the tests know"
	@echo "make reference write docs/reference.md from schemas, FAST-HEP's specifications and examples"
	@echo "make man       write man/fasthep-smk.1 and docs/commands.md from the parser of the command line"
	@echo "make docs      make a site of the pages, and check all links in them"
	@echo "make newest    all tests with the newest FAST-HEP, which may be one that nobody has tested"
	@echo "make oldest    all tests with the oldest FAST-HEP and Snakemake that are allowed"
	@echo "make nightly   all cases of all tests: hours; $(CHAOS_ROUNDS) kills, $(EDIT_ROUNDS) runs with edits"
	@echo "make coverage  which lines the tests run, also in jobs: twice the time of the tests"
	@echo "make release   build sdist and wheel of the git tag in dist/, check them, try the wheel"
	@echo "make bench     time everything against fasthep run: half an hour; BENCH_ARGS='zmumu --repeats 1'"
	@echo "make pictures  redraw the pictures of the README (needs graphviz)"
	@echo "make clean     remove the virtual environment and what the demo made"

$(VENV)/.installed: pyproject.toml .ci/make-venv
	@.ci/make-venv "$(PYTHON)" "$(VENV)" "." "$(CONSTRAINTS)"

$(VENV)/.installed-test: pyproject.toml .ci/make-venv
	@.ci/make-venv "$(PYTHON)" "$(VENV)" ".[test]" "$(CONSTRAINTS)"

demo: $(VENV)/.installed
	@cd workflow/demo && "$(abspath .)/$(VENV)/bin/python" make_events.py
	@cd workflow/demo && "$(abspath .)/$(VENV)/bin/fasthep-smk" workflow.yaml

lint: $(VENV)/.installed-test
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

# Processes that tests start would compile the package each time if its bytecode was not there, as it
# is where pip has installed it; Python may have been told to write none.
bytecode: $(VENV)/.installed-test
	@$(RUN) -m compileall -q fasthep_smk

unit: bytecode
	$(RUN) -m pytest $(PYTEST_ARGS) tests/unit

audit: $(VENV)/.installed-test
	@.ci/audit $(RUN)

messages:
	@"$(PYTHON)" .ci/messages

house: $(VENV)/.installed-test
	@$(RUN) .ci/house

mistakes: $(VENV)/.installed-test
	@$(RUN) .ci/mistakes

reference: $(VENV)/.installed
	$(RUN) .ci/make-reference > docs/reference.md.new
	mv docs/reference.md.new docs/reference.md

man: $(VENV)/.installed
	$(RUN) .ci/make-man > man/fasthep-smk.1.new
	mv man/fasthep-smk.1.new man/fasthep-smk.1
	$(RUN) .ci/make-man page > docs/commands.md.new
	mv docs/commands.md.new docs/commands.md

docs: $(VENV)/.installed-test
	@.ci/make-site $(RUN) build/docs
	@echo "$(abspath .)/build/docs/index.html"

test: lint audit bytecode
	$(RUN) -m pytest $(PYTEST_ARGS)

newest:
	$(MAKE) VENV=.venv-newest CONSTRAINTS= test

oldest:
	mkdir -p build && "$(PYTHON)" .ci/oldest > build/oldest.txt
	$(MAKE) VENV=.venv-oldest CONSTRAINTS=build/oldest.txt test

nightly: bytecode
	FASTHEP_SMK_CHAOS_ROUNDS=$(CHAOS_ROUNDS) FASTHEP_SMK_CHAOS_SEED=$(CHAOS_SEED) \
	FASTHEP_SMK_EDIT_ROUNDS=$(EDIT_ROUNDS) FASTHEP_SMK_EDIT_SEED=$(CHAOS_SEED) \
	FASTHEP_SMK_MIXES=$(MIXES) FASTHEP_SMK_MIX_SEED=$(CHAOS_SEED) \
	FASTHEP_SMK_FUZZ=$(FUZZ) FASTHEP_SMK_SLIPS=$(SLIPS) \
	$(RUN) -m pytest $(PYTEST_ARGS) -m "" tests/integration/test_chaos.py \
		tests/integration/test_chaos_edits.py tests/integration/test_never_stale.py \
		tests/integration/test_misspelt_keys.py tests/unit/test_fuzz.py \
		tests/unit/storage/test_pickles.py
	FASTHEP_SMK_TESTS_COLD=1 $(RUN) -m pytest $(PYTEST_ARGS) -m long

coverage: bytecode
	rm -rf build/coverage && mkdir -p build/coverage
	COVERAGE_FILE="$(abspath build/coverage)/data" $(RUN) -m coverage run -m pytest $(PYTEST_ARGS) $(TESTS)
	COVERAGE_FILE="$(abspath build/coverage)/data" $(RUN) -m coverage combine -q build/coverage
	COVERAGE_FILE="$(abspath build/coverage)/data" $(RUN) -m coverage report --skip-covered --sort=miss

$(BENCH_VENV)/.installed: pyproject.toml .ci/make-venv
	@.ci/make-venv "$(PYTHON)" "$(BENCH_VENV)" ".[bench]" "$(CONSTRAINTS)"

bench: $(BENCH_VENV)/.installed
	"$(BENCH_VENV)/bin/python" -m tests.benchmarks $(BENCH_ARGS)

release: $(VENV)/.installed
	@.ci/release $(RUN) "$(CONSTRAINTS)"

pictures: demo
	@.ci/make-pictures "$(VENV)"

clean:
	rm -rf "$(VENV)" "$(BENCH_VENV)" .venv-newest .venv-oldest build/docs workflow/demo/build workflow/demo/data workflow/agc/build workflow/agc/data tests/.cache
