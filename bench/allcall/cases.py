"""ALLCALL on real nats-servers: `python -m bench --protocol allcall`. Takeover, yield and healing, beside their bounds.

A split is made between two servers that know nothing of each other: members are at one or the other, and a bridge passes the
messages on while the network is whole. So the moment of healing is known, and no TCP connection has to find out first.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from bench.cases import Row, spread
from bench.leaderships import Reigns, several
from bench.processes import Player, Troupe
from pares.dev import Nats
from pares.runtime.clock import stopwatch

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

BEGIN, END = "<!-- figures of ALLCALL -->", "<!-- end of figures of ALLCALL -->"
DELAY_MS: Final = 20
"""What messages and processes on one machine may take in all, beyond the protocol's own time."""

Cases = dict[str, Callable[[bool], Iterator[Row]]]


@dataclass(frozen=True)
class Times:
    """Seconds."""

    heartbeat: float
    lease: float
    skew: float

    def __str__(self) -> str:
        return f"heartbeat {self.heartbeat:g} s, lease {self.lease:g} s, skew {self.skew:g} s"

    @property
    def crash_ms(self) -> float:
        """A leader that renews at the very moment before it dies: the lease, the others' skew, a beat, two deliveries."""
        return (self.lease + self.skew + self.heartbeat) * 1000 + DELAY_MS

    @property
    def beat_ms(self) -> float:
        return self.heartbeat * 1000 + DELAY_MS

    @property
    def term_ms(self) -> float:
        return (self.lease + self.heartbeat) * 1000 + DELAY_MS


SHORT: Final = Times(0.1, 1.0, 0.1)
USUAL: Final = Times(1.0, 10.0, 1.0)


def cases(options: Namespace) -> Cases:
    """What `--protocol allcall` measures: with short leases, and a fifth as often with the usual ones, which take minutes."""
    from bench.allcall import faults  # which builds on this

    rounds: int = 3 if options.quick else options.rounds
    few = max(3, rounds // 5)
    found: Cases = {
        "takeover": lambda _: takeovers(SHORT, rounds),
        "yield": lambda _: yields(SHORT, rounds),
        "heal": lambda _: heals(SHORT, rounds),
    }
    several = 2 if options.quick else max(5, rounds // 5)
    found |= {
        "freeze": lambda _: faults.freezes(SHORT, several),
        "restart": lambda _: faults.restarts(SHORT, several),
        "node": lambda _: faults.losses(SHORT, several),
    }
    if not options.quick:
        found["network"] = lambda _: faults.networks(SHORT, several)
        found["usual-takeover"] = lambda _: takeovers(USUAL, few)
        found["usual-heal"] = lambda _: heals(USUAL, few)
    return found


def start(troupe: Troupe, nats: Nats, name: str, rank: int, times: Times, order: str = "lease") -> Player:
    return cast(troupe, f"nats://{nats.bootstrap}", name, rank, times, order)


def cast(
    troupe: Troupe,
    url: str,
    name: str,
    rank: int,
    times: Times,
    order: str = "lease",
    alone: str = "lead",
    prefix: Sequence[str] = (),
) -> Player:
    """`alone`: what it does then; `prefix`: what goes before its command, such as what puts it into a network of its own."""
    words = [str(word) for word in (rank, times.heartbeat, times.lease, times.skew, order, alone)]
    return troupe.cast(name, [*prefix, sys.executable, "-m", "bench.allcall.worker", url, name, *words])


def begin(troupe: Troupe, nats: list[Nats], times: Times, order: str = "lease") -> None:
    """One member at each of these, m0, m1, ... by rank; m0 leads, and all are in the group."""
    start(troupe, nats[0], "m0", 0, times, order)
    troupe.hear("lead", role="x")
    for rank, server in enumerate(nats[1:], start=1):
        start(troupe, server, f"m{rank}", rank, times, order)
    for _ in nats:
        troupe.hear("ready", role="-")


def ruled(troupe: Troupe, nats: list[Nats], times: Times, order: str = "lease") -> Reigns:
    """As `begin`, for who has to know at each moment who leads: on a busy machine it may have changed hands."""
    reigns = Reigns(troupe)
    start(troupe, nats[0], "m0", 0, times, order)
    reigns.come_to({"m0"})
    for rank, server in enumerate(nats[1:], start=1):
        start(troupe, server, f"m{rank}", rank, times, order)
    for _ in nats:
        reigns.told("ready")
    return reigns


def takeovers(times: Times, rounds: int) -> Iterator[Row]:
    """From SIGKILL to the next one's belief. A member that comes in the place of a dead one ranks behind all."""
    found: list[float] = []
    with Nats(jetstream=False) as nats, Troupe() as troupe:
        begin(troupe, [nats] * 3, times)
        leader = "m0"
        for number in range(rounds):
            # A member that has begun long enough ago may be elected, and a kill falls anywhere in the leader's term.
            time.sleep(times.heartbeat * 4 + times.lease * random.random())
            # On a busy machine it may have changed hands meanwhile.
            leader = [leader, *troupe.heard("lead", role="x")][-1]
            killed = stopwatch()
            troupe.players[leader].kill()
            dead, (leader, at) = leader, troupe.hear("lead", role="x", after=killed, by_other_than=leader)
            found.append((at - killed) / 1e6)
            troupe.players[dead].process.wait()
            start(troupe, nats, f"n{number}", 3 + number, times)
            troupe.hear("ready", role="-")
    yield row("crash takeover", times, found, times.crash_ms)


def yields(times: Times, rounds: int) -> Iterator[Row]:
    """From the call of hand_over() to the other's belief; then the role comes back at the end of a term."""
    found: list[float] = []
    with Nats(jetstream=False) as nats, Troupe() as troupe:
        reigns = ruled(troupe, [nats] * 2, times)
        for _ in range(rounds):
            reigns.come_to({"m0"}, times.heartbeat * (4 + random.random()))
            troupe.players["m0"].say("hand")
            asked = reigns.told("handing")
            found.append((reigns.come_to({"m1"}) - asked) / 1e6)
    yield row("yield, from hand_over() to the next one's belief", times, found, times.beat_ms)


def heals(times: Times, rounds: int) -> Iterator[Row]:
    for order in ("lease", "rank"):
        two, lowest = healed(times, rounds, order)
        yield row(f"heal, order={order}: more than one leader", times, two, times.beat_ms)
        most = times.term_ms if order == "lease" else times.beat_ms
        yield row(f"heal, order={order}: until the lowest rank leads alone", times, lowest, most)


def healed(times: Times, rounds: int, order: str) -> tuple[list[float], list[float]]:
    """Milliseconds from healing: until one of the two leaders stops, and until the lowest rank leads alone."""
    two: list[float] = []
    lowest: list[float] = []
    with (
        Nats(jetstream=False) as here,
        Nats(jetstream=False) as there,
        Bridge(here, there) as bridge,
        Troupe() as troupe,
    ):
        reigns = ruled(troupe, [here, there, here, there], times, order)
        for _ in range(rounds):
            reigns.come_to({"m0"}, times.heartbeat * (4 + random.random()))
            bridge.whole = False
            reigns.come_to({"m0", "m1"})
            time.sleep(times.lease * random.random())
            bridge.whole, healing = True, stopwatch()
            # Where it is m0 that stops, m1 gives the role back at the end of its term.
            alone = max(healing, reigns.come_to({"m0"}))
            two.append(several(reigns.changes, healing, alone))
            lowest.append((alone - healing) / 1e6)
    return two, lowest


def row(what: str, times: Times, found: list[float], most: float) -> Row:
    return Row(f"{what}; {times}", spread(found, digits=0), f"max <= {most:.0f} ms", max(found) <= most)


class Bridge:
    """Passes messages of a group on between two servers, while `whole`."""

    def __init__(self, *ends: Nats) -> None:
        self._urls = [f"nats://{end.bootstrap}" for end in ends]
        self.whole = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._clients: list[Client] = []

    async def _open(self) -> None:
        import nats

        # What a bridge has passed on must not come back to it.
        self._clients = [await nats.connect(url, no_echo=True) for url in self._urls]
        for one, other in (self._clients, self._clients[::-1]):
            await one.subscribe("pares.bus.bench", cb=self._pass_on(other))
            await one.flush()

    def _pass_on(self, other: Client) -> Callable[[Msg], Awaitable[None]]:
        async def pass_on(message: Msg) -> None:
            if self.whole:
                await other.publish(message.subject, message.data)
                await other.flush()

        return pass_on

    async def _close(self) -> None:
        for client in self._clients:
            await client.close()

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
