# What people and CI type. `make` alone lists the targets. It needs make and Python >= 3.11; all else goes into .venv.

.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:

ARGS ?=
PYTHON ?=
# Of the measurements: pages to crawl, hosts of the synthetic web, kills, URLs that a frontier knows already.
PAGES ?= 20000
HOSTS ?= 300
N ?= 20
KNOWN ?= 1000000
MINUTES ?= 60
# Of the simulation: how many seeds, or one of them with its whole trace.
SEEDS ?= 1000
SEED ?=
# A URL is passed on as it was typed: make expands no `$` in it and the shell sees it only in quotes.
override URL := $(value URL)
OUT ?=
export URL OUT PYTHON
# Processes by the hundred are started here: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin

.PHONY: help crawl demo test check fmt fuzz docs clean check-static check-lint check-types check-mypy check-pyright check-imports check-collect check-tests check-docs check-wheel bench bench-micro bench-peers bench-kafka kills kafka cluster chaos simulate

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "  make crawl URL=https://example.com/ ARGS='--max-pages 100'     into crawls/example.com, or OUT=folder"
	@echo "  make test ARGS='-k robots'"
	@echo "  make bench PAGES=100000 HOSTS=1000 ARGS=--no-steps      make kills N=20      make simulate SEEDS=10000"

# --- the environment -------------------------------------------------------------------------------------------------

.venv/run.stamp: pyproject.toml tools/environment.py
	@sh tools/python.sh tools/environment.py run

.venv/dev.stamp: pyproject.toml tools/environment.py
	@sh tools/python.sh tools/environment.py dev

# Scripts in an environment name the folder that it was made in: a checkout that moved needs a new one.
ifneq ($(shell cat .venv/folder 2>/dev/null),$(CURDIR))
.PHONY: .venv/run.stamp .venv/dev.stamp
endif

# --- crawling --------------------------------------------------------------------------------------------------------

crawl: .venv/run.stamp ## crawl URL=... into crawls/HOST; more options in ARGS=...
	@test -n "$$URL" || { echo "make crawl needs a URL, for example: make crawl URL=https://example.com/" >&2; exit 2; }
	@$(BIN)/frontlog crawl "$$URL" $${OUT:+--out "$$OUT"} $(ARGS)

demo: .venv/run.stamp ## crawl a small site that comes with frontlog, on loopback, into crawls/demo
	$(BIN)/frontlog demo $(ARGS)

kafka: .venv/dev.stamp ## run a real Apache Kafka on this machine until Ctrl-C; a folder in ARGS=... keeps its data
	@PYTHONPATH=tests $(BIN)/python -m support.broker $(ARGS)

cluster: .venv/dev.stamp ## a broker, two workers and a site to crawl on this machine, until Ctrl-C
	@PYTHONPATH=tests $(BIN)/python -m support.cluster $(ARGS)

chaos: .venv/dev.stamp ## workers on Kafka under kills, stops, crashes and a broker that dies, for MINUTES=60
	FRONTLOG_CHAOS_MINUTES=$(MINUTES) $(BIN)/pytest -q -s tests/kafka/test_chaos.py $(ARGS)

# --- developing ------------------------------------------------------------------------------------------------------

test: .venv/dev.stamp ## run the tests; ARGS='-k foo' picks some
	@PYTHONPATH=tests $(BIN)/python -m support.broker --jars || true
	@PYTHONPATH=tests $(BIN)/python -m support.registry --jars || true
	@export PYTHONHASHSEED=$${PYTHONHASHSEED:-$$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}; \
	export PYTEST_XDIST_AUTO_NUM_WORKERS=$${PYTEST_XDIST_AUTO_NUM_WORKERS:-$$(($$(getconf _NPROCESSORS_ONLN) * 3 / 2))}; \
	echo "PYTHONHASHSEED=$$PYTHONHASHSEED"; \
	$(BIN)/pytest -q -n auto --dist worksteal $(MEASURE) $(ARGS)

simulate: .venv/dev.stamp ## run the simulated crawler over SEEDS=1000 seeds, or SEED=7 with its trace
	@PYTHONPATH=tests $(BIN)/python -m simulation.many $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

check: check-static check-tests ## everything that CI runs
	@echo "make check: all passed"

# What measures no time runs side by side; each one's lines stay together where make can do that. A build of the wheel leaves
# a copy of the source at the root for a moment, which ruff must not see.
check-static: .venv/dev.stamp ## all of check that runs no test, the wheel as well
	@$(MAKE) --no-print-directory --keep-going -j4 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target) SIDE_BY_SIDE=yes check-lint check-mypy check-pyright check-imports check-docs check-wheel check-collect
ifdef SIDE_BY_SIDE
check-wheel: check-lint
endif

check-lint: .venv/dev.stamp ## formatting and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check-types: check-mypy check-pyright ## mypy and pyright, both strict

check-mypy: .venv/dev.stamp ## mypy, strict
	$(BIN)/mypy

check-pyright: .venv/dev.stamp ## basedpyright, strict
	$(BIN)/basedpyright

check-imports: .venv/dev.stamp ## each room imports only what stands below it
	$(BIN)/lint-imports

check-collect: .venv/dev.stamp ## every test can be imported; what that compiled is there for the processes that run them
	@mkdir -p build
	@$(BIN)/pytest -q --collect-only >build/collected 2>&1 || { cat build/collected; exit 1; }
	@tail -n 1 build/collected

check-docs: .venv/dev.stamp ## generated pages are what the code says, and README sessions what happens
	$(BIN)/python tools/docs.py --check
	$(BIN)/python tools/sessions.py --check

check-tests: .venv/dev.stamp ## the tests with branch coverage
	@mkdir -p build/coverage
	@$(MAKE) --no-print-directory test MEASURE="--cov --cov-report=term"

check-wheel: .venv/dev.stamp ## build the wheel, install it in an empty environment, crawl from another folder
	$(BIN)/python tools/try_wheel.py

fmt: .venv/dev.stamp ## format the code and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: .venv/dev.stamp ## the parsers of outside bytes under atheris, outside CI; ARGS='url --seconds 600'
	@$(BIN)/python tools/fuzz.py $(ARGS)

docs: .venv/dev.stamp ## write the generated pages of docs/reference again
	$(BIN)/python tools/docs.py

clean: ## remove what make made; crawls stay
	rm -rf .venv .venv.lock build dist frontlog.egg-info .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find avro bench fetch frontlog processors replay state streams tests tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- measuring: bench/README.md --------------------------------------------------------------------------------------

bench: .venv/run.stamp ## crawl the synthetic web with everything on, and say what it costs; PAGES=, HOSTS=
	$(BIN)/python -m bench.run --pages $(PAGES) --hosts $(HOSTS) $(ARGS)

bench-micro: .venv/run.stamp ## what single steps cost: links, decisions, rebuilding, codecs; KNOWN=
	$(BIN)/python -m bench.micro --known $(KNOWN) $(ARGS)

bench-peers: .venv/run.stamp ## other crawlers on the same web in the same run; PAGES=, HOSTS=
	$(BIN)/python -m bench.peers --pages $(PAGES) --hosts $(HOSTS) $(ARGS)

bench-kafka: .venv/dev.stamp ## a crawl on Kafka beside an embedded one in the same run, hand-overs, one owner, rebuilding; PAGES=, HOSTS=
	PYTHONPATH=tests $(BIN)/python -m bench.kafka --pages $(PAGES) --hosts $(HOSTS) $(ARGS)

kills: .venv/run.stamp ## kill a crawl N times at random moments, fill its disk, and judge what it comes to; N=
	$(BIN)/python -m bench.kills --n $(N) $(ARGS)
