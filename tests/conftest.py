"""Hypothesis profiles, the marks `brokers` and `timeless`, `--rewrite` for the golden scenarios, and a Kafka, NATS,
PostgreSQL, Redis, RabbitMQ, Pulsar or an emulated Kinesis for whoever asks for one.

`ci` always tries the same examples, so that a run which fails can be run again. `thorough` (HYPOTHESIS_PROFILE=thorough) tries
many more, and new ones each time.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from planted_secret import Watch

if TYPE_CHECKING:
    from kinesis_tools import Moto
    from pares.dev import Kafka, Nats, Postgres, Pulsar, RabbitMQ, Redis

settings.register_profile(
    "ci", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


SERVERS = {"nats", "postgres", "redis_server", "rabbit_server", "pulsar_server", "moto"}
"""Fixtures that are servers, for whatever test."""
BROKERS = ("kafka", "nats", "postgres", "redis", "rabbitmq", "pulsar", "kinesis", "nats ledger", "core nats")
REAL = (
    "tests/dev/test_dev_cli",
    "tests/dev/test_dev_jars",
    "tests/dev/test_dev_kafka",
    "tests/dev/test_dev_process",
    "tests/dev/test_dev_security",
    "tests/fence/kafka/test_kafka_fence",
    "tests/dev/test_dev_nats",
    "tests/dev/test_dev_postgres",
    "tests/dev/test_dev_redis",
    "tests/dev/test_dev_rabbitmq",
    "tests/dev/test_dev_one_server",
    "tests/ledger/kafka/test_kafka",
    "tests/ledger/nats/test_nats",
    "tests/ledger/postgres/test_postgres",
    "tests/ledger/redis/test_redis",
    "tests/ledger/rabbitmq/test_rabbitmq",
    "tests/ledger/pulsar/test_pulsar_server",
    "tests/ledger/kinesis/test_kinesis_on_moto",
    "tests/ledger/test_server_troubles",
    "tests/runtime/allcall/test_allcall_on_nats",
    "tests/runtime/test_members_on_nats",
    "tests/spark/test_audit_kafka",
    "tests/cli/demo/test_demo_kafka",
)


TIMELESS = (
    "tests/core/",
    "tests/sim/",
    "tests/spark/",
    "tests/bench/test_bench_command",
    "tests/bench/test_bench_crowd",
    "tests/bench/test_bench_demo_picture",
    "tests/bench/test_bench_page",
    "tests/chaos/test_chaos_judge",
    "tests/cli/test_cli_errors",
    "tests/cli/test_cli_help",
    "tests/cli/test_cli_reading",
    "tests/cli/demo/test_demo_summary",
    "tests/cli/demo/test_demo_where",
    "tests/cli/test_no_shell",
    "tests/cli/test_secrets",
    "tests/dev/test_dev_settings",
    "tests/docs/test_actors",
    "tests/docs/test_dependencies",
    "tests/docs/test_design_page",
    "tests/docs/test_doc_links",
    "tests/docs/test_doc_picture",
    "tests/docs/test_doc_snippets.py::test_types",
    "tests/docs/test_internals_page",
    "tests/docs/test_references",
    "tests/fence/test_file",
    "tests/fence/test_sql",
    "tests/ledger/conformance/test_ledger_conformance",
    "tests/ledger/sqlite/test_ledger_mounts",
    "tests/ledger/file/test_ledger_file_frames",
    "tests/ledger/file/test_ledger_file_mutants",
    "tests/ledger/file/test_ledger_file_power",
    "tests/ledger/test_ledger_memory",
    "tests/ledger/test_ledger_registry",
    "tests/ledger/sqlite/test_ledger_sqlite_each",
    "tests/ledger/sqlite/test_ledger_sqlite_files",
    "tests/ledger/test_ledger_tailed",
    "tests/house/",
    "tests/oracles/",
    "tests/runtime/test_slots.py::test_a_newcomer",
    "tests/runtime/test_slots.py::test_less",
    "tests/runtime/test_slots.py::test_what_a_leaver",
    "tests/testing/test_testing_plugin",
)
"""Where nothing waits for a lease, a session or somebody's silence: calculation, simulated time, histories written by hand,
ledgers without members, and commands that only read. However slow the machine, these come out the same. Of these files, tests
with real processes are left out."""
DOWNLOAD = 900
"""Seconds for a test on Pulsar, the first of which may have to fetch 320 jars."""
TIMELESS_PROCESSES = ("tests/runtime/death/test_proof",)
"""With real processes, of which none waits for another one's silence: a lock is free or it is not."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs on a real server is marked `brokers`, kinds of ledgers and buses too. (bench marks its own.)

    `timeless`: may run beside others.
    """
    for item in items:
        alone = item.get_closest_marker("processes") is not None
        if item.nodeid.startswith(TIMELESS_PROCESSES) or (item.nodeid.startswith(TIMELESS) and not alone):
            item.add_marker("timeless")
        params = getattr(getattr(item, "callspec", None), "params", {})
        kinds = [params.get(name) for name in ("stage", "served", "buses", "ledger", "origin")]
        on_broker = any(isinstance(kind, str) and kind in BROKERS for kind in kinds)
        if on_broker or SERVERS & {*getattr(item, "fixturenames", ())} or item.nodeid.startswith(REAL):
            item.add_marker("brokers")
        if "pulsar" in (*kinds, params.get("kind")) or "pulsar_server" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(DOWNLOAD))


def pytest_configure(config: pytest.Config) -> None:
    """The watch for the planted secret. And: under nohup, or in the background of a shell, signals come in ignored; what tests
    start would inherit that."""
    config.pluginmanager.register(Watch(), "planted-secret-watch")
    usually = {signal.SIGHUP: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
    for number, usual in usually.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden scenarios anew, for review of the diff")


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """One broker for the whole run, which nobody may harm; each test makes topics of its own."""
    from kafka_tools import STEADY
    from pares.dev import Kafka

    with Kafka(settings=STEADY) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def nats() -> Iterator[Nats]:
    """One NATS for the whole run, which nobody may harm; each test makes streams of its own."""
    from pares.dev import Nats

    with Nats() as nats:
        yield nats


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """One PostgreSQL for the whole run, which nobody may harm; each test makes a schema of its own."""
    from pares.dev import Postgres

    with Postgres({"max_connections": 100}) as postgres:
        yield postgres


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """One server for the whole run, which nobody may harm; each test makes streams of its own."""
    from pares.dev import Redis

    with Redis() as server:
        yield server


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitMQ]:
    """One server for the whole run, which nobody may harm; each test makes streams of its own."""
    from rabbit_tools import managed

    with managed() as server:
        yield server


@pytest.fixture(scope="session")
def pulsar_server() -> Iterator[Pulsar]:
    """One server for the whole run, which nobody may harm; each test makes topics of its own."""
    from pares.dev import Pulsar

    with Pulsar() as server:
        yield server


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    """One emulator of Kinesis for the whole run, whose faults end with the test that asked for them; each makes streams of its
    own."""
    from kinesis_tools import Moto, logged_in

    with logged_in(), Moto() as moto:
        yield moto
