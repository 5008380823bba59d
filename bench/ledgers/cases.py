"""The same on each ledger, and beside PostgreSQL an elector by its advisory lock: `python -m bench --ledgers all`."""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pares
from bench.cases import Row, crash, handed_over, spread
from bench.ledgers.servers import clusters, named
from bench.processes import Troupe
from pares.dev.cluster import LocalCluster
from pares.runtime.clock import stopwatch

TESTS: Final = Path(__file__).resolve().parents[2] / "tests"
if str(TESTS) not in sys.path:
    sys.path.append(str(TESTS))  # for servers that only tests have

BEGIN, END = "<!-- figures on ledgers -->", "<!-- end of figures on ledgers -->"
SIZE: Final = 150
"""Bytes of a record: a beat has about as many."""
WARM: Final = 500
SLACK_MS: Final = 20
HANDOVER_MS: Final = 4
PAUSE: Final = 0.02

Cases = dict[str, Callable[[bool], Iterator[Row]]]
NewUrl = Callable[[], str]
"""The URL of a ledger that nobody has used."""


@contextmanager
def _folder(url: str) -> Iterator[NewUrl]:
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        yield lambda: url.format(f"{folder}/{_name()}")


@contextmanager
def _server(kind: type[LocalCluster], settings: dict[str, Any]) -> Iterator[NewUrl]:
    make: Any = kind
    with make(**({"settings": settings} if settings else {})) as server:
        url = named(server)
        yield lambda: url(_name())


@contextmanager
def _kinesis() -> Iterator[NewUrl]:
    """On moto, which is made to answer no more reads than AWS does, and read as often as it would be there."""
    from kinesis_tools import Moto, logged_in

    with logged_in(), Moto() as moto, moto.reads(5):
        yield lambda: moto.url(_name(), poll="1")


def _name() -> str:
    return f"bench_{uuid.uuid4().hex[:8]}"


SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "nats": {"jetstream": {"sync_interval": "always"}},
    "postgres": {"fsync": "on"},
    "redis": {"appendfsync": "always"},
}
"""Each syncs an append before it acknowledges it, but Kafka and RabbitMQ, which never do."""
ORDER: Final = ("file", "sqlite", "postgres", "redis", "rabbitmq", "pulsar", "nats", "kafka")
"""Others come behind."""


def _ledgers() -> dict[str, Callable[[], AbstractContextManager[NewUrl]]]:
    found: dict[str, Callable[[], AbstractContextManager[NewUrl]]] = {
        "file": lambda: _folder("file://{}"),
        "sqlite": lambda: _folder("sqlite:///{}.db"),
    }
    for name, kind in clusters().items():
        found[name] = lambda name=name, kind=kind: _server(kind, SETTINGS.get(name, {}))
    order = [*ORDER, *(name for name in found if name not in ORDER)]
    return {**{name: found[name] for name in order}, "kinesis": _kinesis}


LEDGERS: Final = _ledgers()


@dataclass(frozen=True)
class Pace:
    """What a ledger can be asked for. `sessions`: the first one is that of handovers, proven deaths and idle members."""

    sessions: tuple[float, ...] = (1.0, 0.3)
    most: int = 1000
    """Rounds of each measurement."""
    warm: int = WARM


PACES: Final = {"kinesis": Pace((10.0,), most=10, warm=3)}
"""An append there takes a second, and a session ten: docs/choosing.md says why."""


def cases(options: Namespace) -> Cases:
    """What `--ledgers` measures: on each that is named, or on all."""
    named: list[str] = [*LEDGERS] if "all" in options.ledgers else options.ledgers
    rounds: int = 3 if options.quick else options.rounds
    return {name: (lambda quick, name=name: measured(name, rounds, 3 if quick else 20)) for name in named}


def measured(name: str, rounds: int, idle_seconds: float) -> Iterator[Row]:
    pace = PACES.get(name, Pace())
    rounds, first = min(rounds, pace.most), pace.sessions[0]
    # As it is written behind what another session than the usual one was taken for.
    usual = "" if first == 1.0 else f" (session {first:g} s)"
    with LEDGERS[name]() as new:
        yield from round_trips(name, new(), min(10 * rounds, 2 * pace.most), pace.warm)
        found = handed_over(rounds, new(), first)
        target, met = ("", None) if name != "postgres" else _within(found, HANDOVER_MS)
        yield Row(f"{name}: handover{usual}", spread(found), target, met)
        for session in pace.sessions:
            found = crash(session, False, rounds, new())
            target, met = _within(found, session * 1000 + SLACK_MS) if not usual else ("", None)
            said = f", session {session:g} s" if not usual else f", session 1 s{usual}"
            yield Row(f"{name}: crash takeover by silence{said}", spread(found, digits=0), target, met)
        yield Row(f"{name}: crash takeover, death proven{usual}", spread(crash(first, True, rounds, new())))
        used = idle(new(), idle_seconds, first)
        yield Row(f"{name}: idle member, 3 members{usual or ', session 1 s'}", spread(used, "% of a core", 2))
        if name == "postgres":
            yield from elected(new(), rounds, idle_seconds)


def _within(found: list[float], most: float) -> tuple[str, bool]:
    return f"p50 <= {most:g} ms", statistics.median(found) <= most


def round_trips(name: str, url: str, rounds: int, warm: int = WARM) -> Iterator[Row]:
    appended: list[float] = []
    back: list[float] = []
    with closing(pares.open(url)) as ledger:
        bell = ledger.bell()
        for number in range(warm + rounds):
            began = time.perf_counter()
            offset = ledger.append(b"x" * SIZE)
            acknowledged = time.perf_counter()
            assert ledger.read(offset, timeout=10)[0].offset == offset
            if number >= warm:
                appended.append((acknowledged - began) * 1000)
                back.append((time.perf_counter() - began) * 1000)
                time.sleep(PAUSE)
        if bell is not None:
            bell.close()
    yield Row(f"{name}: append", spread(appended, digits=2))
    yield Row(f"{name}: append and read back", spread(back, digits=2))


def idle(url: str, seconds: float, session: float = 1.0) -> list[float]:
    """Of a core, in per cent, for each of three members of which one leads."""
    with Troupe(url) as troupe:
        players = [troupe.start(f"m{i}", session=session) for i in range(3)]
        troupe.hear("lead")
        time.sleep(3)
        before = [player.cpu() for player in players]
        time.sleep(seconds)
        return [(player.cpu() - used) / seconds * 100 for player, used in zip(players, before, strict=True)]


def elected(url: str, rounds: int, idle_seconds: float) -> Iterator[Row]:
    """By the advisory lock, on the same server."""
    command = [sys.executable, "-m", "bench.ledgers.advisory_lock", url]
    handed: list[float] = []
    killed: list[float] = []
    with Troupe(url) as troupe:
        players = [troupe.cast(f"m{i}", [*command, f"m{i}", "1.0"]) for i in range(3)]
        leader, _ = troupe.hear("lead")
        time.sleep(1)
        before = [player.cpu() for player in players]
        time.sleep(idle_seconds)
        used = [(player.cpu() - one) / idle_seconds * 100 for player, one in zip(players, before, strict=True)]
        for _ in range(rounds):
            time.sleep(0.3)
            troupe.players[leader].say("hand r")
            _, asked = troupe.hear("handing")
            leader, at = troupe.hear("lead", after=asked, by_other_than=leader)
            handed.append((at - asked) / 1e6)
        for i in range(rounds):
            time.sleep(0.5 + 0.5 * random.random())
            at_kill = stopwatch()
            troupe.players[leader].kill()
            dead, (leader, at) = leader, troupe.hear("lead", after=at_kill, by_other_than=leader)
            killed.append((at - at_kill) / 1e6)
            troupe.players[dead].process.wait()
            troupe.cast(f"n{i}", [*command, f"n{i}", "1.0"])
    yield Row("advisory lock: handover", spread(handed))
    yield Row("advisory lock: crash takeover, the connection seen to end (a freeze: never)", spread(killed))
    yield Row("advisory lock: idle contender, 3 contenders", spread(used, "% of a core", 2))
