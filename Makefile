# One command for each thing one does here.  `make` lists them.
#
# A fresh machine needs Python 3.11 or newer with pip, and make; nothing else.  A C compiler makes
# it faster, and is optional.  Everything is installed into .venv, at the versions that
# requirements/constraints.txt names; `touch`ed stamps in .venv make the second run quick.

VENV        ?= .venv
PYTHONS     ?= python3.14 python3.13 python3.12 python3.11 python3
CONSTRAINTS := requirements/constraints.txt
BIN         := $(VENV)/bin
PY          := $(BIN)/python
PIP         := $(PY) -m pip --disable-pip-version-check --quiet
ARGS        ?=
SECONDS     ?= 60
SEEDS       ?= 500
ROUNDS      ?= 50
KAFKA       ?= 4.3.1 3.9.2
ASAN_BUILD  := build/asan
ASAN_TESTS  ?= $(wildcard $(foreach kind,wire_* record* batch* control* crc32c murmur2 producer_quick,\
                   tests/unit/test_$(kind).py tests/property/test_$(kind).py))

TWIN_SOURCES := setup.py $(wildcard $(foreach depth,* */*,src/ottla/$(depth)/*.pyx src/ottla/$(depth)/*.px[di]) src/native/*.h)

.DEFAULT_GOAL := help
.PHONY: help setup test compat-kafka compat-connect kills sim demo check fix bench docs pictures wheels setup-browser setup-prometheus fuzz asan lock clean
.DELETE_ON_ERROR:

help: ## list these targets
	@echo "usage: make <target>"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.twins ## make .venv with all tools, and build the compiled twins
	@$(BIN)/ottla version -v

test: $(VENV)/.twins ## run all tests; ARGS="-k batch -x" goes to pytest
	@echo "==> tests"
	@$(PY) -m pytest -q -n auto --maxprocesses 8 --dist loadfile $(ARGS)

# Needs Java 17 and Maven, which fetches Kafka's jars into build/jars; skips where one is missing.
compat-kafka: $(VENV)/.twins ## test our clients with Apache Kafka itself; KAFKA="4.3.1 3.9.2"
	@for version in $(KAFKA); do \
	    echo "==> our clients with Apache Kafka $$version"; \
	    $(PY) -m pytest -q --kafka=$$version \
	        tests/compat/test_client_*.py tests/examples tests/kafka \
	        tests/mirror/test_mirror_kafka.py \
	        tests/console/test_pages.py tests/console/test_sampling.py \
	        tests/spark/test_source_*.py tests/spark/test_sink.py $(ARGS) || exit 1; \
	done

# Its packages stay out of .venv: all other tests shall work without pandas.
compat-connect: $(VENV)/.twins build/connect/.installed ## test pipelines of Spark Connect
	@PYTHONPATH=$(CURDIR)/build/connect $(PY) -m pytest -q \
	    tests/spark/test_connect.py tests/spark/test_declarative_pipelines.py $(ARGS)

kills: $(VENV)/.twins ## kill a broker under load again and again; ROUNDS=50, ARGS as for test
	@OTTLA_KILL_ROUNDS=$(ROUNDS) $(PY) -m pytest -q tests/broker/test_kills*.py $(ARGS)

# Where the tools are installed, Spark is, too; otherwise only what the demo needs is.
demo: $(if $(wildcard $(VENV)/.installed),$(VENV)/.twins,$(VENV)/.demo) ## a pipeline, killed at work
	@$(BIN)/ottla demo

check: $(VENV)/.twins ## format, lint, types, layers, architecture: what a change must pass
	@echo "==> format"
	@$(BIN)/ruff format --check .
	@echo "==> lint"
	@$(BIN)/ruff check .
	@echo "==> types"
	@$(BIN)/mypy
	@$(BIN)/basedpyright --pythonpath $(PY)
	@echo "==> layers"
	@$(BIN)/lint-imports > /dev/null || $(BIN)/lint-imports
	@echo "==> architecture"
	@$(PY) -m pytest -q tests/architecture
	@echo "==> derived pages"
	@$(PY) -m tools.derive --check
	@echo "==> hot paths, of the compiled twins and of those in Python"
	@$(PY) -m bench.guard
	@OTTLA_PURE=1 $(PY) -m bench.guard

fix: $(VENV)/.installed ## repair what a tool can: format, imports, derived pages
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .
	@$(PY) -m tools.derive

bench: $(VENV)/.twins ## speed, as ratios to named peers in the same run, into bench/RESULTS.md
	@$(PY) -m bench --write $(ARGS)

fuzz: $(VENV)/.twins ## feed both twins with noise; SECONDS=60 bounds it
	@$(PY) -m fuzz --seconds $(SECONDS) $(ARGS)

# One seed leaves its whole trace in a file; of many seeds, those that fail say how to replay them.
sim: $(VENV)/.twins ## simulations: SEED=17 for one, with its trace, or SEEDS=500 for many
ifdef SEED
	@mkdir -p build
	@rm -f build/sim-$(SEED).trace
	@OTTLA_SIM_SEED=$(SEED) OTTLA_SIM_TRACE=build/sim-$(SEED).trace \
	    $(PY) -m pytest -q tests/simulation -k "$(SEED)" $(ARGS); status=$$?; \
	    echo "every event of these runs is in build/sim-$(SEED).trace"; exit $$status
else
	@OTTLA_SIM_SEEDS=$(SEEDS) $(PY) -m pytest -q -n auto --maxprocesses 8 tests/simulation $(ARGS)
endif

# The sanitized twins live in build/asan with a copy of the package, so the ones in src/ stay as
# they are.  PYTHONMALLOC=malloc lets the sanitizer see every allocation.
asan: $(VENV)/.twins ## run record and wire tests with AddressSanitizer in the twins
	@echo "==> building sanitized twins in $(ASAN_BUILD)"
	@rm -rf $(ASAN_BUILD)
	@OTTLA_BUILD_SANITIZE=address $(PY) setup.py --quiet build \
	    --build-lib $(ASAN_BUILD)/lib --build-temp $(ASAN_BUILD)/temp
	@echo "==> tests with AddressSanitizer"
	@PYTHONPATH=$(ASAN_BUILD)/lib PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	    LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" \
	    $(PY) -m pytest -q -n 2 --timeout 900 -p tools.sanitized $(ASAN_TESTS) $(ARGS)

setup-browser: ## install the browser that tests of the console use (Debian and Ubuntu, as root)
	@apt-get install -y -qq chromium chromium-driver

setup-prometheus: ## install the Prometheus that tests of alerts and dashboard use (Debian, as root)
	@apt-get install -y -qq --no-install-recommends prometheus

pictures: $(VENV)/.twins ## take the console's pictures for the docs, in a real browser
	@OTTLA_PICTURES=docs/pictures $(PY) -m pytest -q tests/console/test_browser.py $(ARGS)

docs: $(VENV)/.docs ## build the documentation site; warnings are errors
	@$(PY) -m tools.derive
	@$(BIN)/zensical build --clean --strict
	@echo "the site is in site/index.html"

wheels: $(VENV)/.installed ## build sdist and wheels into dist/, and try each in an empty environment
	@$(PY) -m tools.wheels dist

lock: ## choose new versions of everything and write requirements/constraints.txt
	@rm -rf build/lock
	@$(MAKE) --no-print-directory VENV=build/lock build/lock/.created
	@build/lock/bin/python -m tools.lock $(CONSTRAINTS)

clean: ## remove everything that make made, .venv included
	rm -rf $(VENV) build dist site .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .import_linter_cache src/*.egg-info
	rm -f src/ottla/*/_*.so src/ottla/*/*/_*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@for python in $(PYTHONS); do \
	    if $$python -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	        2> /dev/null; then \
	        echo "==> $(VENV) with $$($$python --version) ($$python)"; \
	        $$python -m venv $(VENV) && touch $@ && exit 0; exit 1; \
	    fi; \
	done; \
	echo "error: no Python 3.11 or newer with venv among: $(PYTHONS)"; \
	echo "hint:  install one (Debian and Ubuntu: apt install python3 python3-venv)," \
	     "or name it: make PYTHONS=/path/to/python3 $(MAKECMDGOALS)"; \
	exit 1

$(VENV)/.installed: $(VENV)/.created pyproject.toml $(CONSTRAINTS)
	@echo "==> packages, at the versions of $(CONSTRAINTS)"
	@$(PIP) install --upgrade -c $(CONSTRAINTS) pip
	@$(PIP) install -c $(CONSTRAINTS) --group build --group test --group check
	@OTTLA_BUILD_PURE=1 $(PIP) install -c $(CONSTRAINTS) --no-build-isolation -e .
	@touch $@

$(VENV)/.demo: $(VENV)/.created pyproject.toml $(CONSTRAINTS) $(TWIN_SOURCES)
	@echo "==> packages for the demo: Spark is 450 MB, and takes a minute or two"
	@$(PIP) install -c $(CONSTRAINTS) --upgrade pip
	@$(PIP) install -c $(CONSTRAINTS) --group build
	@OTTLA_BUILD_PURE=1 $(PIP) install -c $(CONSTRAINTS) --no-build-isolation -e '.[spark]'
	@$(PY) setup.py --quiet build_ext --inplace > /dev/null
	@touch $@

# Old builds go first: where the compiler fails, the readable twin must run, not last week's.  Those
# for other Pythons stay: they belong to other environments.
$(VENV)/.twins: ABI = $(shell $(PY) -c 'import sys; print(sys.implementation.cache_tag)')
$(VENV)/.twins: $(VENV)/.installed $(TWIN_SOURCES)
	@echo "==> compiled twins (optional: without a C compiler the Python twins run)"
	@rm -rf build/lib.* build/temp.*
	@rm -f src/ottla/*/_*.$(ABI)-*.so src/ottla/*/*/_*.$(ABI)-*.so
	@$(PY) setup.py --quiet build_ext --inplace > /dev/null
	@$(PY) -m tools.twins_built
	@touch $@

build/connect/.installed: $(VENV)/.created pyproject.toml $(CONSTRAINTS)
	@echo "==> packages of Spark Connect, in build/connect"
	@rm -rf build/connect
	@$(PIP) install -c $(CONSTRAINTS) --target build/connect --group connect
	@touch $@

$(VENV)/.docs: $(VENV)/.twins
	@echo "==> documentation tools"
	@$(PIP) install -c $(CONSTRAINTS) --group docs
	@touch $@
