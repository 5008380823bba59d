"""NELI and Fast NELI on a real Kafka: `python -m bench --protocol neli`.

Takeovers and planned moves at goNELI's settings and at ours, beside what goNELI 0.5.0 itself took on a real Kafka 4.3.1 of one
node (2 cores, 2 processes, client 1.8.2; few runs each). And what a topic bears that many groups, or many members, share.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import threading
import time
import uuid
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import asdict

import pares
from bench.cases import Row, spread
from bench.on_kafka import MANY, cluster, url
from bench.processes import Troupe
from pares.core.neli.budget import BUDGET
from pares.core.wire.neli_records import Foreign, decode
from pares.core.wire.records import BadRecord
from pares.runtime.clock import stopwatch
from pares.runtime.config.protocols import Partitioned

BEGIN, END = "<!-- figures of NELI -->", "<!-- end of figures of NELI -->"
SIZES: Final = (1, 2, 5, 10, 20, 50)
PARTITIONS: Final = 4
OVER: Final = 1.1
"""Of the budget: what counts as within it. Members are not in step with one another when one joins."""

Cases = dict[str, Callable[[bool], Iterator[Row]]]


@dataclass(frozen=True)
class Setting:
    """A member's settings. `session`: the group's, in seconds. `own`: of its protocol. `crash`, `close`: what goNELI took at
    them, in seconds: the middle of its runs, and how that is said."""

    name: str
    session: float
    own: Partitioned
    crash: tuple[float, str] | None = None
    close: tuple[float, str] | None = None
    client: dict[str, str] = field(default_factory=dict[str, str])

    def settings(self) -> dict[str, Any]:
        client = {"session.timeout.ms": str(round(self.session * 1000)), **self.client}
        return {"kind": type(self.own).__name__, "own": asdict(self.own), "options": {"options": client}}


SETTINGS: Final = {
    "goneli": Setting(
        "fast-neli at goNELI's defaults: session 15 s, deadline 5 s, a beat each 0.1 s",
        15.0,
        pares.FastNeli(heartbeat_timeout=5.0, poll_interval=0.1),
        crash=(17.4, "goNELI: 14.9 / 17.4 / 18.1 s (n=4)"),
        close=(3.1, "goNELI: 2.9 / 3.1 / 11.3 s (n=3)"),
    ),
    "goneli-tight": Setting(
        "fast-neli at goNELI's tightest: session 6 s, deadline 2 s, a beat each 0.1 s",
        6.0,
        pares.FastNeli(heartbeat_timeout=2.0, poll_interval=0.1),
        crash=(7.5, "goNELI: 6.1 to 8.8 s (n=4)"),
        close=(2.2, "goNELI: 2.1 to 3.1 s (n=4)"),
    ),
    "goneli-hasty": Setting(
        "the same, and the client's heartbeat each 0.2 s",
        6.0,
        pares.FastNeli(heartbeat_timeout=2.0, poll_interval=0.1),
        close=(0.6, "goNELI: 0.36 / 0.60 / 0.73 s (n=5)"),
        client={"heartbeat.interval.ms": "200"},
    ),
    "fast": Setting("fast-neli, nothing set: session 6 s, deadline 5 s", 6.0, pares.FastNeli()),
    "neli": Setting("neli, nothing set: session 6 s, T 2.975 s, clock_error 0.05 s", 6.0, pares.Neli()),
    "nele": Setting("nele: session 6 s, T 9 s", 6.0, pares.Nele(T=9.0)),
    "quick": Setting("fast-neli, a broker that allows it: session 1 s", 1.0, pares.FastNeli()),
}


def cases(options: Namespace) -> Cases:
    """What `--protocol neli` measures, as its options say."""
    rounds: int = 2 if options.quick else min(options.rounds, 10)
    window = 5.0 if options.quick else 20.0
    sizes = SIZES[:3] if options.quick else SIZES
    found: Cases = {}
    for key, setting in SETTINGS.items():
        found[f"crash-{key}"] = lambda _, s=setting: crashes(s, rounds)
        found[f"close-{key}"] = lambda _, s=setting: closings(s, rounds)
    for mode in ("neli", "nele"):
        found[f"groups-{mode}"] = lambda _, m=mode: crowds(m, "groups", sizes, window)
        found[f"members-{mode}"] = lambda _, m=mode: crowds(m, "members", sizes, window)
    found["groups-fast"] = lambda _: crowds("fast", "groups", sizes, window)
    return found


# Takeovers -----------------------------------------------------------------------------------------------------------


class Pair(Troupe):
    """Two members of one group, one of which leads; there is always a standby that knows who does."""

    def __init__(self, url: str, setting: Setting) -> None:
        super().__init__(url)
        self._setting = setting
        self._group = uuid.uuid4().hex[:8]
        self._count = 0

    def enlist(self) -> str:
        """One more member, which has its place in the group."""
        self._count += 1
        name = f"{self._group}-{self._count}"
        settings = json.dumps(self._setting.settings())
        self.cast(name, [sys.executable, "-m", "bench.neli.worker", self.url, name, settings])
        self.hear("ready", role="-")
        return name

    def rest(self) -> None:
        """Until the group is at rest, and an instant that has nothing to do with its heartbeats."""
        time.sleep(self._setting.session * (0.5 + random.random() / 2))


def crashes(setting: Setting, rounds: int) -> Iterator[Row]:
    """Seconds from SIGKILL to the successor's belief."""
    found: list[float] = []
    with cluster(1, rounds * MANY // 10) as kafka, Pair(url(kafka), setting) as pair:
        pair.enlist()
        leader, _ = pair.hear("lead")
        for _ in range(rounds):
            pair.enlist()
            pair.rest()
            killed = stopwatch()
            pair.players[leader].kill()
            leader, at = pair.hear("lead", after=killed, by_other_than=leader)
            found.append((at - killed) / 1e9)
    yield _beside(f"crash takeover, {setting.name}", found, setting.crash)


def closings(setting: Setting, rounds: int) -> Iterator[Row]:
    """Seconds from the call of close() to the successor's belief."""
    found: list[float] = []
    with cluster(1, rounds * MANY // 10) as kafka, Pair(url(kafka), setting) as pair:
        pair.enlist()
        leader, _ = pair.hear("lead")
        for _ in range(rounds):
            pair.enlist()
            pair.rest()
            pair.players[leader].say("close")
            _, asked = pair.hear("closing")
            leader, at = pair.hear("lead", after=asked, by_other_than=leader)
            found.append((at - asked) / 1e9)
    yield _beside(f"closing the leader, {setting.name}", found, setting.close)


def _beside(what: str, found: list[float], theirs: tuple[float, str] | None) -> Row:
    figures = spread(found, "s", 2)
    if theirs is None:
        return Row(what, figures)
    return Row(what, figures, theirs[1], statistics.median(found) <= theirs[0])


# Crowds --------------------------------------------------------------------------------------------------------------


class Crowd:
    """Members in this process, on one opened ledger: so what is measured is what they write, not what many clients cost."""

    def __init__(self, url: str, mode: str, of: str) -> None:
        self.ledger = pares.open(url)
        self._mode, self._of = mode, of
        self._run = uuid.uuid4().hex[:8]
        self.members: list[pares.Member] = []

    def grow(self, size: int) -> None:
        """To so many groups of one member, or members of one group, all of which live."""
        own = {"fast": pares.FastNeli(), "neli": pares.Neli(), "nele": pares.Nele(T=9.0)}[self._mode]
        while len(self.members) < size:
            number = len(self.members)
            group = f"{self._run}-{number if self._of == 'groups' else 0}"
            roles = [str(n) for n in range(PARTITIONS)]
            self.members.append(pares.Member(self.ledger, group=group, roles=roles, name=f"m{number}", protocol=own))
        end = time.monotonic() + 120
        while not all(member.state == "live" and member.leaders("0") for member in self.members):
            if time.monotonic() > end:
                raise TimeoutError(f"not all of {size} {self._of} live after two minutes")
            time.sleep(0.1)

    def settle(self) -> None:
        """Until everybody has heard everybody, and beacons at the pace that follows from that."""
        time.sleep(12.0)

    def close(self) -> None:
        closing = [threading.Thread(target=member.close, args=(5.0,)) for member in self.members]
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join()
        self.ledger.close()


def written(ledger: Any, since: Sequence[int]) -> list[list[int]]:
    """Per partition: the times in milliseconds of the NELI family's records, from these offsets on."""
    found: list[list[int]] = []
    for partition, offset in enumerate(since):
        times: list[int] = []
        end = ledger.end(partition)
        while offset < end and (entries := ledger.read(offset, partition)):
            offset = entries[-1].offset + 1
            times += [entry.timestamp_ms for entry in entries if _of_the_family(entry.payload)]
        found.append(times)
    return found


def _of_the_family(payload: bytes) -> bool:
    try:
        return not isinstance(decode(payload), Foreign)
    except BadRecord:
        return False


def longest_gap_ms(times: Sequence[int], begin: int, end: int) -> int:
    """The longest stretch of a window in which a partition got nothing."""
    marks = deque([begin, *sorted(at for at in times if begin < at < end), end])
    return max(after - before for before, after in zip(list(marks)[:-1], list(marks)[1:], strict=True))


def crowds(mode: str, of: str, sizes: Sequence[int], window: float) -> Iterator[Row]:
    """Records a second on the topic, and the longest silence of a partition, as groups or members come."""
    with cluster(1, 1) as kafka:
        crowd = Crowd(url(kafka, PARTITIONS), mode, of)
        try:
            for size in sizes:
                crowd.grow(size)
                crowd.settle()
                since = [crowd.ledger.end(n) for n in range(PARTITIONS)]
                begin = time.time_ns() // 1_000_000
                time.sleep(window)
                end = time.time_ns() // 1_000_000
                parts = written(crowd.ledger, since)
                yield _crowd_row(crowd, mode, of, size, parts, (begin, end))
        finally:
            crowd.close()


def _crowd_row(crowd: Crowd, mode: str, of: str, size: int, parts: list[list[int]], span: tuple[int, int]) -> Row:
    begin, end = span
    rate = sum(begin <= at < end for times in parts for at in times) / ((end - begin) / 1000)
    gap = max(longest_gap_ms(times, begin, end) for times in parts)
    core: Any = vars(crowd.members[0]._loop)["binding"].core  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue]
    threshold, what = core.config.threshold_ms, "fast-neli" if mode == "fast" else mode
    one = of[:-1] if size == 1 else of
    figures = f"{rate:.0f} records/s, no partition silent for more than {gap} ms"
    target, met = f"<= {BUDGET}/s", rate <= BUDGET * OVER
    if mode != "nele" and core.rules.share.exceeded:
        # Said by the members, as the warning beacon-budget.
        target, met = f"{'T' if mode == 'neli' else 'the deadline'} binds: the budget yields", None
    dry = gap >= threshold
    return Row(f"{what}, {PARTITIONS} partitions, {size} {one}", figures, target, False if dry else met)
