"""The faults, one function a kind: it makes the fault, says what it did, and, when it goes on, heals it.

Rules: a fault is healed whatever happens in between; what it does is drawn by the run's dice and by who leads at that moment;
and healing returns when its victim *could* work again (a restarted broker answers), not when it does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.brokers import BROKERS, Brokers
from chaos.scene import Scene
from pares.core.errors import CapabilityError

Making = Callable[[Any], contextlib.AbstractContextManager[str]]
"""Of a scene; faults of links and brokers need no more of it than `Brokers`."""


@dataclass(frozen=True)
class Kind:
    """`lasts`: in sessions, between which and which the fault's length is drawn."""

    name: str
    what: str
    make: Making
    lasts: tuple[float, float]


KINDS: Final[dict[str, Kind]] = {}


def _kind(
    name: str, what: str, lasts: tuple[float, float] = (1.5, 3.5)
) -> Callable[[Callable[[Any], Iterator[str]]], None]:
    def register(function: Callable[[Any], Iterator[str]]) -> None:
        KINDS[name] = Kind(name, what, contextlib.contextmanager(function), lasts)

    return register


# Members' links ------------------------------------------------------------------------------------------------------


@_kind("member-cut", "a leading member cut off from all brokers")
def _member_cut(scene: Brokers) -> Iterator[str]:
    member = scene.a_leading_member()
    with scene.net.cut(_both(member, scene.brokers)):
        yield f"{member} is cut off"


@_kind("member-mute", "what a leading member sends is lost")
def _member_mute(scene: Brokers) -> Iterator[str]:
    member = scene.a_leading_member()
    with scene.net.cut([(member, broker) for broker in scene.brokers]):
        yield f"{member} can't be heard"


@_kind("member-deaf", "what is sent to a leading member is lost")
def _member_deaf(scene: Brokers) -> Iterator[str]:
    member = scene.a_leading_member()
    with scene.net.cut([(broker, member) for broker in scene.brokers]):
        yield f"{member} can't hear"


@_kind("coordinator-cut", "a leading member cut off from the group coordinator only")
def _coordinator_cut(scene: Scene) -> Iterator[str]:
    member, broker = scene.a_leading_member(), scene.coordinator()
    with scene.net.cut(_both(member, [f"b{broker}"])):
        yield f"{member} is cut off from b{broker}, the coordinator"


@_kind("leader-cut", "a leading member cut off from the partition's leader only")
def _leader_cut(scene: Brokers) -> Iterator[str]:
    member, broker = scene.a_leading_member(), scene.leader()
    with scene.net.cut(_both(member, [f"b{broker}"])):
        yield f"{member} is cut off from b{broker}, the partition's leader"


@_kind("slow-link", "a leading member's link slow (20 to 80 ms each way) and lossy (2 to 10 %)", (2.5, 5.0))
def _slow_link(scene: Brokers) -> Iterator[str]:
    member, dice = scene.a_leading_member(), scene.dice
    delay, loss = dice.uniform(20, 80), dice.uniform(0.02, 0.10)
    with scene.net.slow(member, delay, delay / 2, loss, dice.randrange(2**31)):
        yield f"{member}'s packets take {delay:.0f} ms longer, {loss:.0%} are lost"


@_kind("slow-links", "every member's link slow and lossy", (2.5, 5.0))
def _slow_links(scene: Brokers) -> Iterator[str]:
    dice = scene.dice
    delay, loss = dice.uniform(20, 60), dice.uniform(0.02, 0.08)
    with contextlib.ExitStack() as stack:
        for member in scene.members:
            stack.enter_context(scene.net.slow(member, delay, delay / 2, loss, dice.randrange(2**31)))
        yield f"all members' packets take {delay:.0f} ms longer, {loss:.0%} are lost"


# Brokers -------------------------------------------------------------------------------------------------------------


@_kind("broker-split", "the partition's leader cut off from the other brokers, not from the members", (1.5, 4.0))
def _broker_split(scene: Brokers) -> Iterator[str]:
    broker = scene.leader()
    others = [node for node in scene.brokers if node != f"b{broker}"]
    with scene.net.cut(_both(f"b{broker}", others)):
        yield f"b{broker}, the partition's leader, is cut off from the other brokers"


@_kind("broker-kill", "SIGKILL to a broker, every other time to the partition's leader")
def _broker_kill(scene: Brokers) -> Iterator[str]:
    leader = scene.leader()
    victim = leader if scene.dice.random() < 0.5 else scene.other_broker(leader)
    scene.kafka.kill(victim)
    try:
        yield f"b{victim} is killed{', the leader' if victim == leader else ''}"
    finally:
        scene.kafka.restart(victim)


@_kind("broker-freeze", "SIGSTOP to a broker, every other time to the partition's leader")
def _broker_freeze(scene: Brokers) -> Iterator[str]:
    leader = scene.leader()
    victim = leader if scene.dice.random() < 0.5 else scene.other_broker(leader)
    scene.kafka.freeze(victim)
    try:
        yield f"b{victim} is frozen{', the leader' if victim == leader else ''}"
    finally:
        scene.kafka.thaw(victim)


@_kind("controller-loss", "SIGKILL to the active controller")
def _controller_loss(scene: Brokers) -> Iterator[str]:
    victim = scene.controller()
    scene.kafka.kill(victim)
    try:
        yield f"b{victim}, the controller, is killed"
    finally:
        scene.kafka.restart(victim)


@_kind("all-restart", "SIGKILL to all brokers at once", (0.5, 2.0))
def _all_restart(scene: Brokers) -> Iterator[str]:
    for number in range(1, BROKERS + 1):
        scene.kafka.kill(number)
    try:
        yield "all brokers are killed"
    finally:
        for number in range(1, BROKERS + 1):
            scene.kafka.restart(number, wait=False)
        scene.kafka.wait_ready()


@_kind("topic-anew", "the topic deleted and made anew", (0.0, 1.0))
def _topic_anew(scene: Scene) -> Iterator[str]:
    from confluent_kafka import KafkaException

    scene.read_log()
    scene.keep_log()
    try:
        scene.delete_topic()
    except KafkaException as error:
        raise CapabilityError(f"the topic can't be deleted: {error}") from error
    try:
        yield "the topic is deleted"
    finally:
        scene.make_topic()


@_kind("disk-full", "no room left on a broker's disk", (2.0, 4.0))
def _disk_full(scene: Scene) -> Iterator[str]:
    leader = scene.leader()
    victim = leader if scene.dice.random() < 0.5 else scene.other_broker(leader)
    node = scene.kafka.nodes[victim - 1]
    filler = node.folder / "data" / "filler"
    _fill(filler)
    try:
        yield f"b{victim}'s disk is full{', the leader' if victim == leader else ''}"
    finally:
        ended = not node.running
        filler.unlink()
        # Kafka gives a log folder up for good at the first error: only a restart takes it up again.
        if node.running:
            scene.kafka.kill(victim)
        try:
            scene.kafka.restart(victim)
        except CapabilityError as error:
            raise CapabilityError(f"b{victim} did not come back from a full disk: {error}") from error
        if not ended:
            scene.notes.append(f"b{victim} did not end when its disk was full: it was killed at the heal")


# Clocks --------------------------------------------------------------------------------------------------------------


@_kind("clock-ahead", "the clock of the partition's leader is an hour ahead", (1.0, 2.0))
def _clock_ahead(scene: Scene) -> Iterator[str]:
    yield from _clock(scene, STEP)


@_kind("clock-behind", "the clock of the partition's leader is an hour behind", (1.0, 2.0))
def _clock_behind(scene: Scene) -> Iterator[str]:
    yield from _clock(scene, -STEP)


STEP: Final = 3600
"""Seconds by which they step."""
CLOCKS: Final = ("clock-ahead", "clock-behind")
"""Kinds that need libfaketime."""
_NEAR: Final = 60
"""Seconds: how far a record's time may be from now and the step together, to be one that the stepped clock has given."""


class NotMade(CapabilityError):
    """A fault that did not come about, though everything that was to bring it about was done. It is healed all the same."""


def _clock(scene: Scene, step: int) -> Iterator[str]:
    """The broker is started again at another time of day, made the partition's leader, so that its clock is what records are
    stamped by, and for healing started once more at the right time.

    Raises `NotMade` unless a record of the members' group was stamped so while the fault lasted."""
    assert scene.faketime is not None
    victim = scene.preferred()  # the one to which leadership can be handed
    node = scene.kafka.nodes[victim - 1]
    before = node.prefix
    other = ["env", f"LD_PRELOAD={scene.faketime}", f"FAKETIME={step:+d}", "DONT_FAKE_MONOTONIC=1"]
    # Without this the library turns Java's timed waits into ones that end at once: a broker spins on all cores.
    other.append("FAKETIME_FORCE_MONOTONIC_FIX=0")
    scene.kafka.kill(victim)
    node.prefix = [*before, *other]
    try:
        scene.kafka.restart(victim)
        try:
            scene.until(scene.whole, "all replicas are in step again")
            scene.hand_over(victim)
            end = scene.log_end()
        except CapabilityError as error:
            raise NotMade(f"b{victim}, whose clock was off, did not come to lead the partition: {error}") from error
        yield f"b{victim}'s clock is off by {step:+d} s, and it leads the partition"
        stamped, others = scene.stamps(end, step, _NEAR)
        scene.stepped.add(len(scene.kept))
        scene.stamped += stamped
        if not stamped:
            raise NotMade(f"b{victim}'s clock was off by {step:+d} s, and stamped none of the group's {others} records")
        if others:
            scene.notes.append(f"while b{victim}'s clock was off, {others} of the group's records had the right time")
    finally:
        node.prefix = before
        if node.running:
            scene.kafka.kill(victim)
        scene.kafka.restart(victim)


def _both(one: str, others: list[str]) -> list[tuple[str, str]]:
    return [pair for other in others for pair in ((one, other), (other, one))]


def _fill(path: Path) -> None:
    """Takes all room on a file system, in pieces that get smaller: what is left is less than a page."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    size, piece = 0, 64 << 20
    until = time.monotonic() + 20
    try:
        while piece >= 4096 and time.monotonic() < until:
            try:
                os.posix_fallocate(descriptor, size, piece)
                size += piece
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                piece //= 2
    finally:
        os.close(descriptor)
