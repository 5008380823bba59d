"""URLs: what is understood, and how clearly the rest is refused."""

import subprocess
import sys
from pathlib import Path

import pytest

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import parse, partition_of, schemes
from pares.ledger.registry import scheme_of


def test_takes_a_url_apart() -> None:
    address = parse("sqlite:///some%20folder/x%23y.db?retention=5&partition=3")
    assert (address.scheme, address.host, address.path) == ("sqlite", "", "/some folder/x#y.db")
    assert address.query == {"retention": "5", "partition": "3"}
    assert parse("MEMORY://Name").scheme == "memory"
    assert parse("MEMORY://Name").host == "Name"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("", "no ledger URL"),
        ("work.db", "for the file work.db write sqlite:///work.db"),
        ("/var/work.db", "write sqlite:////var/work.db"),
        ("sqlite:", "no ledger URL"),
        ("sqlite:/work.db", "no ledger URL"),
        ("://x", "no ledger URL"),
        ("sqlite:///x.db\n", "control character"),
        ("sqlite:///x.db#orders", "'#'"),
        ("sqlite:///x.db#", "'#'"),
        ("sqlite:///x.db?retention", "no ledger URL"),
        ("sqlite:///x.db?a=1&a=2", "option a twice"),
        ("sqlite:///%ff.db", "no ledger URL"),
        ("kafka://[::1/x", "no ledger URL"),
        (None, "must be a string, not NoneType"),
        (b"sqlite:///x.db", "must be a string, not bytes"),
    ],
)
def test_refuses_what_is_no_url(url: object, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open(url)  # pyright: ignore[reportArgumentType]
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://work.db", "write three slashes for a relative path (sqlite:///work.db)"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:////", "names no file"),
        ("sqlite:///folder/", "names no file"),
        ("sqlite:///:memory:", "memory://NAME"),
        ("sqlite:///a%00b.db", "NUL"),
        (
            "sqlite:///x.db?colour=red",
            "unknown option colour; this ledger knows busy_timeout, create, partition, partitions, readonly",
        ),
        ("sqlite:///x.db?synchronous=off", "synchronous=off is not one of full, normal"),
        ("sqlite:///x.db?busy_timeout=0", "busy_timeout=0 is no number of seconds above 0"),
        ("sqlite:///x.db?retention=-3", 'retention=-3 is no number of seconds above 0, or "none"'),
        ("sqlite:///x.db?partitions=0", "partitions=0 is no whole number of at least 1"),
        ("sqlite:///x.db?partitions=10001", "use 1 to 10000"),
        ("sqlite:///x.db?partition=-1", "partition=-1 is no whole number of at least 0"),
        ("sqlite:///x.db?readonly=maybe", "readonly=maybe is neither 1 nor 0"),
        ("memory://", "has 0 characters"),
        ("memory://x?synchronous=full", "unknown option synchronous"),
    ],
)
def test_refuses_what_the_ledger_can_not_be(
    url: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open(url)
    assert says in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_names_the_schemes_it_knows() -> None:
    with pytest.raises(ConfigError) as caught:
        pares.ledger.open("zookeeper://localhost/x")
    assert "zookeeper://" in str(caught.value)
    assert (
        "file://, kafka://, kinesis://, memory://, nats://, postgresql://, pulsar://, pulsar+ssl://, rabbitmq-stream://, "
        "rabbitmq-stream+tls://, redis://, rediss://, sqlite://" in str(caught.value)
    )
    assert schemes() == [
        "file",
        "kafka",
        "kinesis",
        "memory",
        "nats",
        "postgresql",
        "pulsar",
        "pulsar+ssl",
        "rabbitmq-stream",
        "rabbitmq-stream+tls",
        "redis",
        "rediss",
        "sqlite",
    ]


def test_a_relative_url_becomes_one_for_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    ledger = pares.ledger.open("sqlite:///a%20b/x.db?partition=0", retention=7, readonly=False)
    ledger.append(b"x")
    monkeypatch.chdir("/")
    assert ledger.url == f"sqlite:///{tmp_path}/a%20b/x.db?partition=0&retention=7&readonly=0"
    again = pares.ledger.open(ledger.url)
    assert (again.identity(), again.end(), again.retention) == (ledger.identity(), 1, 7.0)
    again.close()
    ledger.close()


def test_the_partition_of_a_group() -> None:
    assert partition_of("kafka://host:9092/topic?partition=12") == 12
    assert partition_of("sqlite:///x.db") == 0
    with pytest.raises(ConfigError, match="partition=x"):
        partition_of("sqlite:///x.db?partition=x")


PLUGIN = """
from pares.ledger.memory import MemoryLedger
from pares.ledger import Address, Options, Scheme

def opener(address: Address, options: Options) -> MemoryLedger:
    assert options.take("colour") == "red"
    return MemoryLedger(Address(address.url, "memory", "from-" + address.host, "", {}), Options(address.url, {}))


class Old:
    # A ledger of a release that had no capabilities.
    closed = False

    def close(self) -> None:
        Old.closed = True

SCHEME = Scheme(opens=opener, look_only=True)
OLD = Scheme(opens=lambda address, options: Old())
"""


def test_finds_the_ledgers_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_ledgers-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: some-ledgers\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[pares.ledgers]\nshoe = some_ledgers:opener\nknown = some_ledgers:SCHEME\n"
        "old = some_ledgers:OLD\nbroken = some_ledgers_absent:opener\n"
    )
    (tmp_path / "some_ledgers.py").write_text(PLUGIN)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert schemes() == [
        "broken",
        "file",
        "kafka",
        "kinesis",
        "known",
        "memory",
        "nats",
        "old",
        "postgresql",
        "pulsar",
        "pulsar+ssl",
        "rabbitmq-stream",
        "rabbitmq-stream+tls",
        "redis",
        "rediss",
        "shoe",
        "sqlite",
    ]
    ledger = pares.ledger.open("shoe://box?colour=red")
    assert ledger.append(b"x") == 0
    ledger.close()
    with pytest.raises(CapabilityError, match="some_ledgers_absent"):
        pares.ledger.open("broken://x")
    assert not scheme_of("shoe://box").look_only, "what an opener alone says nothing of is not taken for granted"
    assert scheme_of("known://box").look_only
    other = pares.ledger.open("known://box?colour=red")
    assert other.append(b"y") == 1
    other.close()
    with pytest.raises(
        CapabilityError, match=r"opened as Old, .* `capabilities = pares\.ledger\.Capabilities\(\)` too"
    ):
        pares.ledger.open("old://box")


@pytest.mark.parametrize("url", ["kafka://localhost:1/x", "nats://localhost:1/x"])
def test_a_setting_of_the_client_in_the_wrong_place_is_told_where_it_goes(url: str) -> None:
    with pytest.raises(ConfigError, match=r"unknown option user; .* options=\{'options': \{\.\.\.\}\}"):
        pares.open(url, user="a")


@pytest.mark.parametrize(
    ("client", "scheme", "at"),
    [
        ("confluent_kafka", "kafka", "127.0.0.1:1"),
        ("nats", "nats", "127.0.0.1:1"),
        ("boto3", "kinesis", "eu-central-1"),
    ],
)
def test_without_the_client_it_says_what_to_install(client: str, scheme: str, at: str) -> None:
    program = (
        f"import sys; sys.modules['{client}'] = None\n"
        "import pares.ledger\n"
        f"try: pares.ledger.open('{scheme}://{at}/t')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith(CapabilityError.__name__)
    assert f"pip install 'pares[{scheme}]'" in done.stdout
