"""What befalls ALLCALL on real servers beside crashes: members that stand still, servers that are lost, and networks that are
cut without a word. How long nobody leads, and how long several do.
"""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from chaos.net import Net

from bench.allcall.cases import Times, cast, row, ruled
from bench.cases import Row, spread
from bench.leaderships import Reigns, none, several
from bench.processes import Troupe
from chaos import net as chaos_net
from pares.core.errors import CapabilityError
from pares.dev import Nats
from pares.runtime.clock import stopwatch

QUICK_TO_NOTICE: Final = {"ping_interval": "1s", "ping_max": 2, "write_deadline": "2s"}
"""A stock server takes minutes to see that another one is gone; what is measured is what members do then."""
SIDES: Final = (("s1", "m0"), ("s2", "m1"), ("s3", "m2"))


def freezes(times: Times, rounds: int) -> Iterator[Row]:
    """SIGSTOP for the leader; it goes on when another one leads, and leads again at the end of that one's term."""
    over: list[float] = []
    wrong: list[float] = []
    back: list[float] = []
    with Nats(jetstream=False) as nats, Troupe() as troupe:
        reigns = ruled(troupe, [nats] * 3, times)
        frozen = troupe.players["m0"]
        for _ in range(rounds):
            time.sleep(times.lease * random.random())
            frozen.say("watch")
            reigns.come_to({"m0"}, times.heartbeat * 4)
            stopped = stopwatch()
            frozen.signal(signal.SIGSTOP)
            # Itself it can't tell that it has stopped.
            over.append((reigns.come_to({"m0", "m1"}) - stopped) / 1e6)
            time.sleep(times.lease * random.random())
            thawed = stopwatch()
            frozen.signal(signal.SIGCONT)
            back.append((reigns.come_to({"m0"}) - thawed) / 1e6)
            wrong += [(last - thawed) / 1e6 if count else 0.0 for _, count, last, _ in frozen.watched(thawed)]
    yield row("leader frozen (SIGSTOP): until the next one leads", times, over, times.crash_ms)
    yield row("thawed: how long it still takes itself for the leader", times, wrong, 0.0)
    # It is heard within a beat; the leader may have renewed just then, and ends its term at a beat.
    yield row("thawed: until it leads again, by rank", times, back, times.term_ms + times.heartbeat * 1000)


def restarts(times: Times, rounds: int) -> Iterator[Row]:
    """The only server is killed, and comes back on the same port, at once or when all claims are over."""
    settled = times.lease + times.skew + 2 * times.heartbeat
    for alone in ("lead", "step_down"):
        for down, how in ((0.0, "at once"), (settled, "after the leases' end")):
            nobody: list[float] = []
            more: list[float] = []
            with Nats(jetstream=False) as nats, Troupe() as troupe:
                for rank in range(3):
                    cast(troupe, f"nats://{nats.bootstrap}", f"m{rank}", rank, times, alone=alone)
                reigns = Reigns(troupe)
                for _ in range(rounds):
                    reigns.come_to({"m0"}, 4 * times.heartbeat)
                    time.sleep(times.lease * random.random())
                    nats.kill(1)
                    time.sleep(down)
                    nats.restart(1)
                    serves = stopwatch()
                    time.sleep(settled)
                    one = reigns.come_to({"m0"}, 4 * times.heartbeat)
                    nobody.append(none(reigns.changes, serves, max(one, serves)))
                    more.append(several(reigns.changes, serves, max(one, serves)))
            what = f'server killed, back {how}, when_isolated="{alone}"; from its return on'
            yield measured(f"{what}: nobody leads", times, nobody, times.crash_ms)
            once = "once members are connected again" if alone == "lead" else ""
            yield measured(f"{what}: several lead", times, more, times.beat_ms if once else 0.0, once)


def losses(times: Times, rounds: int) -> Iterator[Row]:
    """A cluster of three loses the node at which the leader is; all members know all nodes."""
    nobody: list[float] = []
    more: list[float] = []
    with Nats(3, jetstream=False) as nats, Troupe() as troupe:
        places = [node.place.address for node in nats.nodes]
        for rank in range(3):
            cast(troupe, f"nats://{','.join(places[rank:] + places[:rank])}", f"m{rank}", rank, times)
        reigns = Reigns(troupe)
        for number in range(rounds):
            reigns.come_to({"m0"}, 4 * times.heartbeat)
            time.sleep(times.lease * random.random())
            lost = stopwatch()
            # Where the leader is now is not known: each node is lost in turn.
            nats.kill(number % 3 + 1)
            time.sleep(times.lease + times.skew + 2 * times.heartbeat)
            until = stopwatch()
            changes = reigns.heard()
            nobody.append(none(changes, lost, until))
            more.append(several(changes, lost, until))
            nats.restart(number % 3 + 1)
    what = "a cluster of three loses a node"
    yield measured(f"{what}: nobody leads", times, nobody, times.crash_ms)
    yield measured(f"{what}: several lead", times, more, times.beat_ms)


def networks(times: Times, rounds: int) -> Iterator[Row]:
    """Servers and members in networks of their own, and cuts that drop packets without a word."""
    try:
        chaos_net.require_rights()
    except CapabilityError as error:
        print(f"no cuts are measured: {error}", file=sys.stderr)
        return
    yield from _three_sides(times, rounds)
    for cut, how in ((("m0", "s1"), "is not heard"), (("s1", "m0"), "hears nothing")):
        for alone in ("lead", "step_down"):
            yield from _one_way(times, rounds, cut, how, alone)


def _three_sides(times: Times, rounds: int) -> Iterator[Row]:
    """A server and a member on each side."""
    apart: list[float] = []
    more: list[float] = []
    pairs = [(a, b) for one in SIDES for other in SIDES if one != other for a in one for b in other]
    nodes = [node for side in SIDES for node in side]
    with network(*nodes) as net, Troupe() as troupe, servers(net, "s1", "s2", "s3") as nats:
        for rank, node in enumerate(nats.nodes):
            cast(troupe, f"nats://{node.place.address}", f"m{rank}", rank, times, prefix=net.prefix(f"m{rank}"))
        reigns = Reigns(troupe)
        for _ in range(rounds):
            reigns.come_to({"m0"}, 4 * times.heartbeat)
            time.sleep(times.lease * random.random())
            with net.cut(pairs):
                cut = stopwatch()
                apart.append((reigns.come_to({"m0", "m1", "m2"}) - cut) / 1e6)
                time.sleep(times.lease * random.random())
            healed = stopwatch()
            one = reigns.come_to({"m0"}, 4 * times.heartbeat)
            more.append(several(reigns.changes, healed, one))
    what = "a real network parts into three"
    yield row(f"{what}: until each side has a leader", times, apart, times.crash_ms)
    yield measured(f"{what}, and heals: several lead", times, more, times.beat_ms, "once TCP and servers have noticed")


def _one_way(times: Times, rounds: int, cut: tuple[str, str], how: str, alone: str) -> Iterator[Row]:
    """Between the leader and the only server packets pass in one direction only."""
    nobody: list[float] = []
    during: list[float] = []
    after: list[float] = []
    with network("s1", "m0", "m1") as net, Troupe() as troupe, servers(net, "s1") as nats:
        for rank in range(2):
            url, prefix = f"nats://{nats.bootstrap}", net.prefix(f"m{rank}")
            cast(troupe, url, f"m{rank}", rank, times, alone=alone, prefix=prefix)
        reigns = Reigns(troupe)
        for _ in range(rounds):
            reigns.come_to({"m0"}, 4 * times.heartbeat)
            time.sleep(times.lease * random.random())
            with net.cut([cut]):
                began = stopwatch()
                reigns.come_to({"m0", "m1"} if alone == "lead" else {"m1"})
                time.sleep(times.lease * random.random())
            healed = stopwatch()
            one = max(healed, reigns.come_to({"m0"}, 4 * times.heartbeat))
            nobody.append(none(reigns.changes, began, one))
            during.append(several(reigns.changes, began, healed))
            after.append(several(reigns.changes, healed, one))
    what = f'one way only, the leader {how}, when_isolated="{alone}"'
    yield measured(f"{what}: nobody leads", times, nobody, times.crash_ms)
    if alone == "step_down":
        yield measured(f"{what}: several lead", times, [a + b for a, b in zip(during, after, strict=True)], 0.0)
    else:
        yield measured(f"{what}: several lead after it is whole", times, after, times.beat_ms, "once TCP has noticed")


@contextmanager
def network(*nodes: str) -> Iterator[Net]:
    chaos_net.sweep()
    net = Net()
    try:
        net.open()
        for node in (*nodes, "desk"):
            net.add(node)
        net.enter("desk")
        yield net
    finally:
        net.close()


def servers(net: Net, *names: str) -> Nats:
    prefix = {number: net.prefix(name) for number, name in enumerate(names, start=1)}
    hosts = [net.address(name) for name in names]
    return Nats(len(names), jetstream=False, host=hosts, prefix=prefix, settings=QUICK_TO_NOTICE)


def measured(what: str, times: Times, found: list[float], most: float, once: str = "") -> Row:
    """`once`: what the bound has to wait for, and does not count."""
    if once:
        return Row(f"{what}; {times}", spread(found, digits=0), f"<= {most:.0f} ms {once}")
    return row(what, times, found, most)
