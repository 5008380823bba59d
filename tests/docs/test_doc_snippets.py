"""The Python of README.md and of the pages for users runs, as it stands there.

Each block is executed as a program of its own, in an empty folder, with nothing around it but the reader's own work: the names
in `YOURS`, which end the program when they have been called a few times. What needs a server says so in a comment above the
block, and runs with the other tests on servers. All of it is type-checked in one go.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from doc_pages import PAGES, ROOT, Snippet, snippets

import pares
from pares.runtime.death import exit_hooks
from pares.runtime.work import hang_watcher

if TYPE_CHECKING:
    from kinesis_tools import Moto
    from pares.dev import Kafka, Nats, Postgres, Pulsar, RabbitMQ, Redis

CHECKED = (
    "README.md",
    "docs/guide.md",
    "docs/testing.md",
    "docs/operating.md",
    "docs/choosing.md",
    "docs/guarantees.md",
    "docs/allcall.md",
)
ALL = [s for page in PAGES if str(page.relative_to(ROOT)) in CHECKED for s in snippets(page) if s.language == "python"]
PAGES_OF_FRAGMENTS = ("docs/allcall.md",)
"""Their blocks show a call or two, not programs: they are compiled."""
CALLS = 3
HANG_SECONDS = 60.0

YOURS = [
    "run_due_jobs",
    "send_mail",
    "poll_outbox",
    "serve_requests",
    "start_poller",
    "stop_poller",
    "serve_from_memory",
    "forward_to",
    "publish",
    "flush",
    "quote",
    "database_is_up",
    "publish_async",
    "run_due_jobs_async",
]
PRELUDE = "from typing import Any\n" + "".join(
    f"async def {name}(*_: Any) -> None: ...\n" if name.endswith("_async") else f"def {name}(*_: Any) -> Any: ...\n"
    for name in YOURS
)


class Enough(Exception):
    """Ends a snippet that would go on for ever."""


class Yours:
    """The reader's own work: it counts its calls, and ends the program when there were enough."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self._changed = threading.Condition()
        self._main = threading.current_thread()

    def names(self) -> dict[str, Any]:
        own: dict[str, Any] = {name: self._sync(name) for name in YOURS if not name.endswith("_async")}
        own |= {name: self._async(name) for name in YOURS if name.endswith("_async")}
        own["print"] = self._sync("print")
        return own | {"serve_requests": self.serve_requests, "database_is_up": lambda: True, "quote": self._quote}

    def _note(self, name: str) -> None:
        with self._changed:
            self.calls[name] = self.calls.get(name, 0) + 1
            self._changed.notify_all()
        if self.calls[name] >= CALLS and threading.current_thread() is self._main:
            raise Enough(name)
        time.sleep(0.01)

    def _sync(self, name: str) -> Callable[..., str]:
        def work(*_: object) -> str:
            self._note(name)
            return name

        return work

    def _quote(self) -> str:
        self._note("quote")
        return "1.0"

    def _async(self, name: str) -> Callable[..., Any]:
        async def work(*_: object) -> None:
            self._note(name)

        return work

    def serve_requests(self, answer: Callable[[str], str] | None = None) -> None:
        """Goes on until something else has been done that often: by a barrier, in the background, or as an answer."""
        end = time.monotonic() + HANG_SECONDS
        while not any(n >= CALLS for n in self.calls.values()):
            assert time.monotonic() < end, self.calls
            if answer is not None:
                answer("user:42")
            with self._changed:
                self._changed.wait(0.02)


@pytest.fixture
def yours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Yours]:
    """An empty folder, short sleeps, and afterwards nothing is left of what the program did to this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(exit_hooks, "_leaver", exit_hooks._Leaver())  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(hang_watcher, "LINGER", 0.1)
    wait_lost = pares.Term.wait_lost
    monkeypatch.setattr(pares.Term, "wait_lost", lambda term, timeout=None: wait_lost(term, min(timeout or 0.02, 0.02)))
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield Yours()
    for number, handler in before.items():
        signal.signal(number, handler)


def play(snippet: Snippet, yours: Yours, **put: str) -> dict[str, Any]:
    """Executes a snippet with parts of it replaced (a URL, say); what it defined."""
    text = snippet.text.replace("stuck_after=60", "stuck_after=1")  # whoever looks for stuck work stays for so long
    for old, new in put.items():
        old = {
            "kafka_at": "localhost:9092",
            "topic": '"prices"',
            "kafka_url": "kafka://localhost:9092/jobs",
            "nats_at": "nats://localhost:4222",
            "nats_url": "nats://localhost:4222/jobs",
            "dsn": '"dbname=shop"',
            "postgresql_at": "postgresql://shop@localhost:5432/shop",
            "redis_at": "redis://localhost:6379/0",
            "rabbit_at": "rabbitmq-stream://localhost:5552/jobs",
            "pulsar_at": "pulsar://localhost:6650/public/default/jobs",
            "kinesis_at": "kinesis://eu-central-1/jobs",
        }[old]
        assert old in text
        text = text.replace(old, new)
    code = compile("\n" * (snippet.line - 1) + text, str(snippet.page), "exec")
    names: dict[str, Any] = {"__name__": "__main__", **yours.names()}
    try:
        exec(code, names)
    except Enough:
        pass
    finally:
        for value in names.values():
            if isinstance(value, pares.Member):
                value.close()
    return names


def those(note: str) -> list[Any]:
    found = [s for s in ALL if s.note == note and str(s.page.relative_to(ROOT)) not in PAGES_OF_FRAGMENTS]
    return [pytest.param(snippet, id=snippet.name) for snippet in found]


def test_every_block_is_taken_care_of() -> None:
    known = {
        "",
        "environment",
        "postgres",
        "postgresql",
        "kafka",
        "kafka ledger",
        "nats",
        "nats core",
        "redis",
        "rabbitmq",
        "pulsar",
        "kinesis",
        "pytest",
    }
    assert {s.note for s in ALL if not s.note.startswith("compiled only: ")} <= known
    assert len(ALL) > 15
    for snippet in ALL:
        compile(snippet.text, f"{snippet.page}:{snippet.line}", "exec")


@pytest.mark.parametrize("snippet", those(""))
def test_it_runs(snippet: Snippet, yours: Yours) -> None:
    names = play(snippet, yours)
    end = time.monotonic() + HANG_SECONDS
    while left := [thread.name for thread in threading.enumerate() if thread.name.startswith("member ")]:
        assert time.monotonic() < end, f"still running: {left}"
        time.sleep(0.02)
    if any(f"{name}(" in snippet.text for name in (*YOURS, "print")):
        assert yours.calls, "it has come to the reader's own work"
    if "send_digest" in names:
        assert names["send_digest"]() is None, "the member is closed: it leads nothing"


@pytest.mark.parametrize("snippet", those("environment"))
def test_it_runs_by_its_environment(snippet: Snippet, yours: Yours, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the variables of the command line that stands below it, but for the server."""
    below = next(s for s in snippets(snippet.page) if s.line > snippet.line)
    variables = dict(re.findall(r"(PARES_\w+)=(\S+)", below.text))
    assert len(variables) > 3
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PARES_LEDGER", "file:work")
    me = play(snippet, yours)["me"]
    assert yours.calls["publish"], "it has led"
    assert (me.group, me.session) == (variables["PARES_GROUP"], float(variables["PARES_SESSION"]))


@pytest.mark.parametrize("snippet", those("pytest"))
def test_it_passes_as_a_test(snippet: Snippet, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(snippet.text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{snippet.text.count('def test_')} passed" in ran.stdout


@pytest.mark.brokers
@pytest.mark.parametrize("snippet", those("kafka"))
def test_it_runs_on_kafka(snippet: Snippet, yours: Yours, kafka: Kafka) -> None:
    from kafka_tools import new_topic, read

    topic = new_topic(kafka)  # the brokers make none by themselves
    play(snippet, yours, kafka_at=kafka.bootstrap, topic=repr(topic))
    assert read(kafka, topic) == [b"1.0"] * (CALLS - 1), "the last one was called off in its transaction"


@pytest.mark.parametrize("snippet", those("nats core"))
def test_it_runs_on_core_nats(snippet: Snippet, yours: Yours, nats: Nats) -> None:
    play(snippet, yours, nats_at=nats.url.rpartition("/")[0])
    assert yours.calls


@pytest.mark.brokers
@pytest.mark.parametrize("snippet", those("kafka ledger"))
def test_it_runs_on_a_topic(snippet: Snippet, yours: Yours, kafka: Kafka) -> None:
    play(snippet, yours, kafka_url=kafka.topic_url(f"jobs-{uuid.uuid4().hex}"))
    assert yours.calls


@pytest.mark.parametrize("snippet", those("nats"))
def test_it_runs_on_jetstream(snippet: Snippet, yours: Yours, nats: Nats) -> None:
    play(snippet, yours, nats_url=nats.stream_url(f"jobs-{uuid.uuid4().hex}"))
    assert yours.calls


@pytest.mark.parametrize("snippet", those("redis"))
def test_it_runs_on_redis(snippet: Snippet, yours: Yours, redis_server: Redis) -> None:
    play(snippet, yours, redis_at=redis_server.url)


@pytest.mark.parametrize("snippet", those("rabbitmq"))
def test_it_runs_on_rabbitmq(snippet: Snippet, yours: Yours, rabbit_server: RabbitMQ) -> None:
    play(snippet, yours, rabbit_at=rabbit_server.url)
    assert yours.calls


@pytest.mark.parametrize("snippet", those("pulsar"))
def test_it_runs_on_pulsar(snippet: Snippet, yours: Yours, pulsar_server: Pulsar) -> None:
    play(snippet, yours, pulsar_at=pulsar_server.url)
    assert yours.calls


@pytest.mark.parametrize("snippet", those("kinesis"))
def test_it_runs_on_kinesis(snippet: Snippet, yours: Yours, moto: Moto) -> None:
    """On the emulator, as the text above it says; at the pace that is the default."""
    play(snippet, yours, kinesis_at=f"kinesis://eu-central-1/jobs?endpoint={moto.endpoint}")
    assert yours.calls


@pytest.fixture
def invoices(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A shop's table; and a check that the one invoice is sent, behind the fence. The snippet ends after one round."""
    import psycopg

    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE invoices (id int, sent timestamptz)")
        connection.execute("INSERT INTO invoices VALUES (42, NULL)")

        def once(term: pares.Term, timeout: float | None = None) -> bool:
            raise Enough

        def sent() -> None:
            assert connection.execute("SELECT count(*) FROM invoices WHERE sent IS NOT NULL").fetchone() == (1,)
            assert connection.execute("SELECT count(*) FROM pares_fence").fetchone() == (1,)

        monkeypatch.setattr(pares.Term, "wait_lost", once)
        yield sent
        connection.execute("DROP TABLE IF EXISTS invoices, pares_fence")


@pytest.mark.parametrize("snippet", those("postgres"))
def test_it_runs_on_postgres(snippet: Snippet, yours: Yours, postgres: Postgres, invoices: Callable[[], None]) -> None:
    play(snippet, yours, dsn=repr(postgres.url))
    invoices()


@pytest.mark.parametrize("snippet", those("postgresql"))
def test_it_runs_on_postgresql_alone(
    snippet: Snippet, yours: Yours, postgres: Postgres, invoices: Callable[[], None]
) -> None:
    play(snippet, yours, postgresql_at=postgres.url)
    invoices()


def test_types(tmp_path: Path) -> None:
    """One run over all of them: a parameter that is renamed, or a return type that may be None, shows here."""
    for snippet in ALL:
        if str(snippet.page.relative_to(ROOT)) in PAGES_OF_FRAGMENTS:
            continue
        (tmp_path / f"{snippet.name.replace('-', '_')}.py").write_text(PRELUDE + snippet.text)
    settings = {"venvPath": str(ROOT), "venv": ".venv", "extraPaths": [str(ROOT / "src")], "pythonVersion": "3.11"}
    quiet = ["reportMissingModuleSource", "reportMissingTypeStubs", "reportMissingImports"]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, **dict.fromkeys(quiet, "none")}))
    pyright = Path(sys.executable).with_name("pyright")
    ran = subprocess.run([pyright, "-p", tmp_path], capture_output=True, text=True, timeout=170)
    assert ran.returncode == 0, ran.stdout + ran.stderr
