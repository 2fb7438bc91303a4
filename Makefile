# Every target sets up what it needs: a virtual environment of its own under .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_DEMO := $(VENV)/.ready-demo
READY_ENGINES := $(VENV)/.ready-engines
READY_TOOLS := $(VENV)/.ready-tools

comma := ,

# Tests start hundreds of processes: modules are compiled once, whatever a machine's own setting.
unexport PYTHONDONTWRITEBYTECODE

# Versions of DuckDB with a table of verdicts, beside the one that everything else runs on. Each lies in
# a directory of its own, which hides that one.
DUCKDBS := $(filter-out 2.0.0,$(patsubst %.json,%,$(subst \
  dpsql/engines/evidence/surveys/duckdb-,,$(wildcard dpsql/engines/evidence/surveys/duckdb-*.json))))

.PHONY: demo serve-demo test lint types slow tools check attack bench utility robust session coverage first
.PHONY: ledger-bench serve-bench statements union agents
.PHONY: walk engines engines-slow server-versions duckdb-versions duckdb-versions-slow tpch scale peers
.PHONY: pictures dist clean

# The main job on real data: build a database, ask it questions, see answers and costs.
demo: $(READY_DEMO)
	$(BIN)/dpsql demo

# The demo's data behind a server: prints what to type into psql, Python, curl and a model's client.
serve-demo: $(READY_DEMO)
	$(BIN)/python tools/serve_demo.py

# All tests that take no more than a part of a second each: three minutes on two cores.
test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "not slow and not spark"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Sessions in this process and on a server, each file in a process of its own: after the second kind
# pyspark starts none of the first.
BOTH_SPARKS := tests/engines/test_last_reading_spark.py tests/engines/test_spark_waiting.py

# What runs in engines that are installed apart: Spark, which needs Java (Debian: openjdk-17-jre-headless).
engines: $(READY_ENGINES)
	DPSQL_REQUIRE_SPARK=1 $(BIN)/python -m pytest -q -m "spark and not slow" tests/engines \
	  $(addprefix --ignore=,$(BOTH_SPARKS))
	for each in $(BOTH_SPARKS); do \
	  DPSQL_REQUIRE_SPARK=1 $(BIN)/python -m pytest -q -m "spark and not slow" $$each || exit 1; done
	$(BIN)/python tests/engines/cluster/ask.py "local-cluster[2,1,1024]"

# The longer of these, each file in a process of its own: pyspark cannot start again what has ended.
engines-slow: $(READY_ENGINES)
	for each in $$(grep -l "mark.spark" tests/engines/*.py tests/own_answers/*.py); do \
	  DPSQL_REQUIRE_SPARK=1 $(BIN)/python -m pytest -q -m "spark and slow" $$each || [ $$? -eq 5 ] || exit 1; done

# The short part of the engines' suite on every version of PostgreSQL and Spark that dpsql comes with verdicts
# on, or on some: make server-versions VERSIONS="postgresql-17 spark-4.0". Brings each, 23 and 450 MB.
server-versions: $(READY_ENGINES)
	$(BIN)/python tools/servers.py $(VERSIONS)

# Every other version of DuckDB: evidence, lock-down, last reading, the engine suite and a short attack.
# Of long tests few cases and short searches.
DUCKDB_QUICK := $(patsubst %,tests/engines/test_%.py,duckdb_versions evidence trial engine views) \
  tests/attack/test_attack.py tests/sql/test_duckdb_patterns.py
DUCKDB_CASES := $(patsubst %,tests/engines/test_%.py,last_reading suite_duckdb)
ON_DUCKDB = PYTHONPATH=$(CURDIR)/$(VENV)/duckdb-$$each DPSQL_DUCKDB=$$each $(BIN)/python -m pytest -n 2 -q
duckdb-versions: $(addprefix $(VENV)/duckdb-,$(DUCKDBS))
	for each in $(DUCKDBS); do \
	  $(ON_DUCKDB) -m "not slow" $(DUCKDB_QUICK) || exit 1; \
	  DPSQL_LENGTH=0.1 DPSQL_CASES=0/8 $(ON_DUCKDB) $(DUCKDB_CASES) || exit 1; done

# All tests of engines, SQL and attacks on each of them.
duckdb-versions-slow: $(addprefix $(VENV)/duckdb-,$(DUCKDBS))
	for each in $(DUCKDBS); do \
	  $(ON_DUCKDB) -m "not spark" tests/engines tests/sql tests/attack || exit 1; done

$(VENV)/duckdb-%: $(READY)
	rm -rf $@ && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ duckdb==$*
	touch $@

# The longer tests: statistical audits, larger property-based runs, crashes, the demo itself.
slow: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m "slow and not spark"

# What other people draw and ask with: altair, great_tables, ibis, JupySQL, marimo; asyncpg, pg8000, pgcli
# and schemathesis at a server.
tools: $(READY_TOOLS)
	$(BIN)/python -m pytest -n 2 -q -m slow tests/interfaces/test_foreign_tools.py \
	  tests/service/test_jupysql.py tests/server/test_client_*.py

check: lint types test slow

# The standing attacker at length, then programs on two worlds: what differs in one unit must not show.
# Readers on servers are played where there is time left, as far as these are installed.
attack: $(READY)
	$(BIN)/python tests/two_worlds --programs 300 --minutes 20 --jobs 2 \
	  --report benchmarks/results/two_worlds.json & worlds=$$!; \
	  $(BIN)/python tests/attack --statements 100000 --report benchmarks/results/attack.json; \
	  found=$$?; wait $$worlds && exit $$found

# Speed, as ratios to plain queries in the same run: on DuckDB at length, then one table of all engines
# that are installed (PostgreSQL: Debian's postgresql; Spark: make engines first). Writes benchmarks/results/.
bench: $(READY)
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/engines.py

# What one publication is worth: groups released and their error, sampling against weighting.
utility: $(READY)
	$(BIN)/python benchmarks/utility.py

# What 1M, 10M and 100M rows of Parquet cost on two cores with 4 GB. Needs Linux and 2 GB of disk,
# below the system's temporary directory. Writes benchmarks/results/, docs/scale.md.
scale: $(READY)
	$(BIN)/python benchmarks/scale.py

# How often what a reader is told holds of the true values, what bounding leaves out included.
coverage: $(READY)
	$(BIN)/python benchmarks/coverage.py

# What ordinary questions are answered with where nobody gives an option: coverage and error on public
# data, at what dpsql init suggests. Writes benchmarks/results/first.json; make pictures writes docs/first.md.
first: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r benchmarks/first/requirements.txt
	$(BIN)/python benchmarks/first.py

# Whether max_groups_contributed = auto can be left alone: against the best number in hindsight.
robust: $(READY)
	$(BIN)/python benchmarks/robust.py

# What 100 mixed questions are worth on one small account, kept in several ways.
session: $(READY)
	$(BIN)/python benchmarks/session.py

# How much of the SQL that other people write is answered. Writes benchmarks/results/, docs/statements.md.
statements: $(READY) $(VENV)/tpcds
	$(BIN)/python benchmarks/statements.py --tpcds $(VENV)/tpcds

# The same through the tools for language models. Writes benchmarks/results/, a table of docs/how-to/agents.md.
agents: $(READY)
	$(BIN)/python benchmarks/agents.py

# A DuckDB whose extension with the statements of TPC-DS is in an index of packages.
$(VENV)/tpcds: $(READY)
	rm -rf $@ && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target $@ \
	  duckdb==1.5.5 duckdb-extensions==1.5.5 duckdb-extension-tpcds==1.5.5
	touch $@

# Which keys exist: what the default and each mechanism names, on eleven shapes of data.
union: $(READY)
	$(BIN)/python benchmarks/union_shapes.py

# The ledger: entries per second with every commit on disk, and the same after a million entries.
ledger-bench: $(READY)
	$(BIN)/python benchmarks/ledger.py

# What a server adds to the same questions in process. Writes benchmarks/results/.
serve-bench: $(READY)
	$(BIN)/python benchmarks/serve.py

# TPC-H, customers as the privacy units: speed and accuracy. Writes benchmarks/results/, docs/tpch.md.
tpch: $(READY)
	$(BIN)/python benchmarks/tpch.py

# The same two tasks asked of other systems, each installed from its pinned versions under .peers.
# Needs Java for one of them. Writes benchmarks/results/.
peers: $(READY)
	$(BIN)/python benchmarks/peers.py

# How many files a statement is followed through.
walk: $(READY)
	$(BIN)/python tools/walk.py

# The pictures, tables and reference pages of docs that are made from the package itself.
pictures: $(READY)
	$(BIN)/python tools/docs/packages.py
	$(BIN)/python tools/docs/pictures.py
	$(BIN)/python tools/docs/tables.py
	$(BIN)/python tools/docs/functions.py
	$(BIN)/python tools/docs/last_reading.py
	$(BIN)/python tools/docs/errors.py
	$(BIN)/python tools/docs/api.py
	$(BIN)/python tools/docs/policies.py
	$(BIN)/python tools/docs/cli.py

# What is published: the wheel and the source distribution, in dist/, and what an index would say.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

# Tools of development are many times larger than what the demo and its prompt need.
define set_up
	$(PYTHON) -c 'import sys; sys.exit("dpsql needs Python 3.11 or later") if sys.version_info < (3, 11) else None'
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(1)]'
endef

$(READY_DEMO): pyproject.toml
	$(call set_up,demo$(comma)shell$(comma)server$(comma)mcp)
	touch $@

$(READY): pyproject.toml
	$(call set_up,dev)
	touch $(READY_DEMO) $@

$(READY_ENGINES): $(READY)
	$(call set_up,dev$(comma)spark)
	touch $@

$(READY_TOOLS): $(READY)
	$(call set_up,dev$(comma)tools)
	# Each of these needs other versions than ours, so it lies in a place of its own.
	$(BIN)/pip install -q --no-deps --upgrade --target $(VENV)/duckdb-postgres \
	  duckdb==1.5.5 duckdb-extension-postgres-scanner==1.5.5
	$(BIN)/python -m venv $(VENV)/dbt
	$(VENV)/dbt/bin/pip install -q 'dbt-core>=1.10,<1.11' 'dbt-postgres>=1.10,<1.11'
	touch $@

clean:
	rm -rf $(VENV) .peers .servers demo-data dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
