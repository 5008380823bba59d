"""The faults, one function a kind: it makes the fault, says what it did, and heals it when it is left.

A fault is healed whatever happens in between, and healing returns when its victim could work again, not when it does.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from chaos.ledgers.stage import Stage

Making = Callable[[Stage], contextlib.AbstractContextManager[str]]


@dataclass(frozen=True)
class Kind:
    """`lasts`: in sessions, between which and which the fault's length is drawn."""

    name: str
    what: str
    make: Making
    lasts: tuple[float, float]


KINDS: Final[dict[str, Kind]] = {}
LOSSES: Final[dict[str, str]] = {
    "failover-behind": "the master killed, and a replica promoted that lacks what was acknowledged last",
    "restored": "the server killed, and started again with the data that it had some time ago",
}
"""Those that lose what was acknowledged: see `chaos.ledgers.losses`."""


def _kind(
    name: str, what: str, lasts: tuple[float, float]
) -> Callable[[Callable[[Stage], Iterator[str]]], Callable[[Stage], Iterator[str]]]:
    def register(function: Callable[[Stage], Iterator[str]]) -> Callable[[Stage], Iterator[str]]:
        KINDS[name] = Kind(name, what, contextlib.contextmanager(function), lasts)
        return function

    return register


@_kind("member-kill", "SIGKILL to a leading member", (0.0, 2.0))
def _member_kill(stage: Stage) -> Iterator[str]:
    place = stage.a_leading_member()
    stage.crew.kill(place)
    try:
        yield f"{place} is killed"
    finally:
        stage.crew.enlist(place)


@_kind("member-freeze", "SIGSTOP to a leading member", (0.5, 3.5))
def _member_freeze(stage: Stage) -> Iterator[str]:
    with _frozen(stage) as place:
        yield f"{place} is frozen"


@_kind("server-stop", "the server stopped in good order, and started again", (0.0, 2.0))
def _server_stop(stage: Stage) -> Iterator[str]:
    stage.ground.stop()
    try:
        yield "the server is stopped"
    finally:
        stage.ground.restart()


@_kind("server-kill", "SIGKILL to the server, which is started again", (0.0, 2.0))
def _server_kill(stage: Stage) -> Iterator[str]:
    stage.ground.kill()
    try:
        yield "the server is killed"
    finally:
        stage.ground.restart()


@_kind("server-freeze", "SIGSTOP to the server", (0.3, 3.0))
def _server_freeze(stage: Stage) -> Iterator[str]:
    stage.ground.freeze()
    try:
        yield "the server is frozen"
    finally:
        stage.ground.thaw()


@_kind("server-restart", "the server stopped and started again at once", (0.0, 0.0))
def _server_restart(stage: Stage) -> Iterator[str]:
    stage.ground.restart()
    yield "the server is restarted"


@_kind("restart-beside-frozen", "the server restarted beside a leader that is frozen", (0.0, 2.5))
def _restart_beside_frozen(stage: Stage) -> Iterator[str]:
    with _frozen(stage) as place:
        stage.ground.restart()
        yield f"the server is restarted beside {place}, which is frozen"


@_kind("both-killed", "SIGKILL to the server and to a leading member", (0.0, 2.0))
def _both_killed(stage: Stage) -> Iterator[str]:
    place = stage.a_leading_member()
    stage.ground.kill()
    try:
        stage.crew.kill(place)
        yield f"the server and {place} are killed"
    finally:
        stage.ground.restart()
        # A member that finds no server when it is made raises: so its successor comes when there is one.
        stage.crew.enlist(place)


@_kind("failover", "the master killed, and a replica promoted that has everything", (0.0, 1.0))
def _failover(stage: Stage) -> Iterator[str]:
    stage.ground.fail_over()
    yield "the master is killed, the replica promoted"


@_kind("writes-denied", "the service denies every write", (0.3, 3.0))
def _writes_denied(stage: Stage) -> Iterator[str]:
    with stage.emulated.moto.fault("deny", "PutRecord"):
        yield "writes are denied"


@_kind("reads-throttled", "the service answers no read, as if there were too many", (0.3, 3.0))
def _reads_throttled(stage: Stage) -> Iterator[str]:
    with stage.emulated.moto.fault("throttle", "GetRecords"):
        yield "reads are refused"


@contextlib.contextmanager
def _frozen(stage: Stage) -> Iterator[str]:
    place = stage.a_leading_member()
    process = stage.crew.process(place)
    process.freeze()
    try:
        yield place
    finally:
        process.identity.signal(signal.SIGCONT)
