"""What is measured. Each case yields rows: what, figures, and the target that it is held against."""

from __future__ import annotations

import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pares
from bench import on_sources
from bench.processes import Troupe
from pares.core.wire import records
from pares.core.wire.reader import Reader
from pares.runtime.clock import stopwatch

BASE = 1_790_000_000_000_000


@dataclass(frozen=True)
class Row:
    what: str
    figures: str
    target: str = ""
    met: bool | None = None


def spread(values: list[float], unit: str = "ms", digits: int = 1) -> str:
    """min / p50 / max (n)."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{low:.{digits}f} / {middle:.{digits}f} / {high:.{digits}f} {unit} (n={len(values)})"


KERNEL = "of it the kernel's part, from SIGKILL to the word that the process has ended"


def crash(session: float, proof: bool, rounds: int, url: str | None = None) -> list[float]:
    """Milliseconds from SIGKILL to the successor's belief; a new process replaces the dead one each time."""
    found: list[float] = []
    with Troupe(url) as troupe:
        for i in range(3):
            troupe.start(f"m{i}", session=session, proof=proof)
        leader, _ = troupe.hear("lead")
        for i in range(rounds):
            time.sleep(1.0 + session * random.random())
            killed = stopwatch()
            troupe.players[leader].kill()
            dead, (leader, at) = leader, troupe.hear("lead", after=killed, by_other_than=leader)
            found.append((at - killed) / 1e6)
            troupe.players[dead].process.wait()
            troupe.start(f"n{i}", session=session, proof=proof)
    return found


def ended(rounds: int, url: str | None = None) -> list[float]:
    """Milliseconds from SIGKILL until the kernel says that the process has ended: what no successor can be faster than."""
    found: list[float] = []
    with Troupe(url) as troupe:
        for i in range(rounds):
            player = troupe.start(f"m{i}")
            troupe.hear("lead")
            descriptor = os.pidfd_open(player.process.pid)
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                killed = stopwatch()
                player.kill()
                poll.poll()
                found.append((stopwatch() - killed) / 1e6)
            finally:
                os.close(descriptor)
            player.process.wait()
    return found


def takeovers(quick: bool) -> Iterator[Row]:
    rounds = 5 if quick else 30
    values = crash(1.0, True, rounds)
    yield Row("crash takeover, death proven", spread(values), "p50 <= 4 ms", statistics.median(values) <= 4)
    yield Row(KERNEL, spread(ended(rounds)))
    for session in (1.0, 0.3):
        values = crash(session, False, rounds)
        met = statistics.median(values) <= session * 1000
        yield Row(
            f"crash takeover by silence, session {session:g} s",
            spread(values, digits=0),
            f"p50 <= {session * 1000:.0f} ms",
            met,
        )


def handed_over(rounds: int, url: str | None = None, session: float = 1.0) -> list[float]:
    """Milliseconds from the call of hand_over() to the other's belief."""
    found: list[float] = []
    with Troupe(url) as troupe:
        troupe.start("m0", session=session)
        leader, _ = troupe.hear("lead")
        troupe.start("m1", session=session)
        for _ in range(2):
            troupe.hear("ready", role="-")  # on a busy machine a process takes long to begin
        time.sleep(3 * session)
        for _ in range(rounds):
            time.sleep(0.3 * session)
            heir = "m1" if leader == "m0" else "m0"
            troupe.players[leader].say(f"hand r {heir}")
            _, asked = troupe.hear("handing")
            leader, at = troupe.hear("lead", after=asked)
            found.append((at - asked) / 1e6)
    return found


def handovers(quick: bool) -> Iterator[Row]:
    found = handed_over(10 if quick else 50)
    yield Row(
        "handover, from hand_over() to the other's belief", spread(found), "p50 <= 4 ms", statistics.median(found) <= 4
    )


def check(quick: bool) -> Iterator[Row]:
    """`holds()` against the least that any check with a deadline must do, in turns within one run."""
    with pares.Member("memory://bench", group="bench", roles=["r"]) as member:
        assert member.wait("r", 10)
        until, clock, n = {"r": 2**62}, stopwatch, 100_000 if quick else 500_000
        ratios: list[float] = []
        costs: list[float] = []
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(n):
                _ = clock() < until["r"]
            plain = time.perf_counter() - begin
            holds, begin = member.holds, time.perf_counter()
            for _ in range(n):
                holds("r")
            full = time.perf_counter() - begin
            ratios.append(full / plain)
            costs.append(full / n * 1e9)
    yield Row("holds()", spread(costs, "ns", 0))
    yield Row(
        "holds() / inline dict look-up and compare",
        spread(ratios, "x", 2),
        "p50 <= 1.75",
        statistics.median(ratios) <= 1.75,
    )


def realistic_log(count: int) -> list[tuple[int, int, bytes]]:
    """8 members, 100 roles; 96 % plain beats, the rest history and handovers."""
    payloads: list[bytes] = []
    numbers: Counter[str] = Counter()
    ids = [f"feed-{i}~1a2b3c4d" for i in range(8)]

    def write(kind: type[records.Record], member: str, **fields: object) -> None:
        numbers[member] += 1
        record = kind(v=1, g="bench", m=member, n=numbers[member], b=BASE, s=250, **fields)
        payloads.append(records.encode(record))  # type: ignore[arg-type]

    write(records.Genesis, ids[0], base=BASE)
    for id in ids:
        write(records.Join, id, name=id[:6], session=1000)
    for k in range(100):
        write(records.Role, ids[0], name=f"r{k}")
    held: dict[int, tuple[str, int]] = {}
    for k in range(100):
        write(records.Claim, ids[k % 8], seat=(f"r{k}", 0))
        held[k] = (ids[k % 8], BASE + len(payloads) - 1)
    dice = random.Random(1)
    while len(payloads) < count:
        id, draw, k = dice.choice(ids), dice.random(), dice.randrange(100)
        if draw < 0.96:
            write(records.Beat, id)
        elif draw < 0.98:
            write(records.Did, id, seat=("r1", 0), token=BASE, what="lead", at=1_790_000_000_000)
        elif held[k][0] != id:
            holder, token = held[k]
            write(records.Transfer, holder, seat=(f"r{k}", 0), token=token, to=id, why="balance")
            held[k] = (id, BASE + len(payloads) - 1)
    return [(offset, 0, payload) for offset, payload in enumerate(payloads)]


def fold(quick: bool) -> Iterator[Row]:
    entries = realistic_log(100_000 if quick else 300_000)
    rates: list[float] = []
    for _ in range(5):
        reader = Reader("bench")
        reader.attach(0, 0)
        begin = time.process_time()
        for i in range(0, len(entries), 1000):
            reader.feed(entries[i : i + 1000])
        rates.append(len(entries) / (time.process_time() - begin) / 1e6)
        assert reader.world.count == len(entries)
    yield Row(
        "fold from JSON bytes, 96 % beats", spread(rates, "M records/s", 2), ">= 1.00", statistics.median(rates) >= 1
    )


def appends(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="pares-bench-") as folder:
        ledger = pares.open(f"sqlite:///{folder}/bench.db")
        found: list[float] = []
        for _ in range(200 if quick else 2000):
            begin = time.perf_counter()
            ledger.append(b"x" * 100)
            found.append((time.perf_counter() - begin) * 1e3)
        ledger.close()
    yield Row("SQLite append, synchronous=full", spread(found, digits=2))


def topics(quick: bool) -> Iterator[Row]:
    for what, values, unit in on_sources.kept(quick):
        yield Row(what, spread(values, unit))


def nats_source(quick: bool) -> Iterator[Row]:
    for what, values, unit in on_sources.nats(quick):
        yield Row(what, spread(values, unit))


def idle(quick: bool) -> Iterator[Row]:
    seconds = 5 if quick else 30
    for count in (3, 10):
        with Troupe() as troupe:
            players = [troupe.start(f"m{i}") for i in range(count)]
            troupe.hear("lead")
            time.sleep(2 + count * 0.4)
            before = [p.cpu() for p in players]
            time.sleep(seconds)
            used = [(p.cpu() - b) / seconds * 100 for p, b in zip(players, before, strict=True)]
        target, met = ("<= 1 %", statistics.median(used) <= 1) if count == 3 else ("", None)
        yield Row(f"idle member, {count} members, session 1 s", spread(used, "% of a core", 2), target, met)


def thousand(quick: bool) -> Iterator[Row]:
    """8 processes, 1,000 roles: until all are led and shared evenly; then a ninth, and what moved for it."""
    times: list[float] = []
    moved: list[int] = []
    for _ in range(1 if quick else 5):
        with Troupe() as troupe:
            begin = time.perf_counter()
            for i in range(8):
                troupe.start(f"m{i}", roles="1000")
            with pares.Observer(troupe.url, group="bench") as observer:
                before = until_even(observer, 8)
                times.append(time.perf_counter() - begin)
                troupe.start("m8", roles="1000")
                after = until_even(observer, 9)
                moved.append(sum(1 for seat in after if after[seat] != before[seat]))
    yield Row(
        "8 members, 1,000 roles: all led, balanced within one",
        spread(times, "s", 2),
        "<= 3 s",
        statistics.median(times) <= 3,
    )
    figures = f"{min(moved)} to {max(moved)} of 1,000 roles moved"
    yield Row("a ninth member joins", figures, "111 (its share)", max(moved) == 111)


def until_even(observer: pares.Observer, members: int) -> dict[tuple[str, int], str | None]:
    """Waits until so many members share 1,000 seats within one; who holds what then."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        holders = {seat: state.holder for seat, state in observer.world.seats.items()}
        loads = Counter(holders.values())
        if (
            len(holders) == 1000
            and None not in loads
            and len(loads) == members
            and max(loads.values()) - min(loads.values()) <= 1
        ):
            return holders
        time.sleep(0.01)
    raise TimeoutError("the roles are not shared evenly after a minute")


def unprovoked(seconds: float, *, loaded: bool, url: str | None = None) -> int:
    """How often leadership moves among 3 members although nobody dies; `loaded`: while every core burns."""
    burners: list[subprocess.Popen[bytes]] = []
    try:
        with Troupe(url) as troupe:
            for i in range(3):
                troupe.start(f"m{i}")
            troupe.hear("lead")
            if loaded:
                burn = [sys.executable, "-c", "while True: pass"]
                burners += [subprocess.Popen(burn) for _ in range(os.cpu_count() or 2)]
            time.sleep(seconds)
            return sum(1 for line in list(troupe.lines.queue) if line[1] == "lead")
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def false_takeovers(quick: bool) -> Iterator[Row]:
    moves = unprovoked(10 if quick else 60, loaded=True)
    yield Row(
        f"takeovers from a live leader, {10 if quick else 60} s, all cores loaded, session 1 s",
        str(moves),
        "0",
        moves == 0,
    )


CASES: dict[str, Callable[[bool], Iterator[Row]]] = {
    "takeover": takeovers,
    "handover": handovers,
    "holds": check,
    "fold": fold,
    "append": appends,
    "topic": topics,
    "source-nats": nats_source,
    "idle": idle,
    "thousand": thousand,
    "false": false_takeovers,
}
