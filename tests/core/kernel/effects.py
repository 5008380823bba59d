"""What a simulated process does with each effect of its kernel: appends leave, beliefs begin and end, barriers run.

The scene is told of all of it first, so that promises are judged before anything follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pares.core import events as ev
from pares.core.claims.protocol import Claims

if TYPE_CHECKING:
    from kernel.process import Process


def carry(process: Process, effect: ev.Effect) -> None:
    CARRY[type(effect)](process, effect)


def _append(process: Process, effect: ev.Append) -> None:
    process.scene.sent(process, effect)
    process.blocked = process.wire.weather.blocking
    claims = process.claims
    if process.freezes("ticked"):
        process.left.append(lambda: _hand_over(process, effect, claims))
    else:
        _hand_over(process, effect, claims)


def _hand_over(process: Process, effect: ev.Append, claims: Claims | None) -> None:
    process.wire.send(claims, effect.ticket, effect.payloads)


def _lead(process: Process, effect: ev.Lead) -> None:
    process.beliefs[effect.seat], process.until[effect.seat] = effect.token, effect.until
    process.scene.led(process, effect)


def _extend(process: Process, effect: ev.Extend) -> None:
    """What has run out is over for good: whether it has is looked at in the step that prolongs it, for the process may have
    stood still since its kernel looked. The kernel gives such a term up, when it is told."""
    now = process.now
    for seat, token in list(process.beliefs.items()):
        if now < process.until[seat]:
            process.until[seat] = effect.until
        else:
            process.lapsed.add((seat, token))
            process.inbox.append(ev.Lapsed(seat, token))
    process.scene.renewed(process)


def _follow(process: Process, effect: ev.Follow) -> None:
    if process.beliefs.get(effect.seat) == effect.token:
        del process.beliefs[effect.seat]
    process.scene.followed(process, effect)


def _barrier(process: Process, effect: ev.Barrier) -> None:
    process.scene.barrier(process, effect)
    length = process.barrier_time(effect.seat, effect.token)
    if length is not None:
        process.scene.engine.after(length, _barrier_over, process, effect, process.claims)


def _barrier_over(process: Process, effect: ev.Barrier, claims: Claims) -> None:
    if process.frozen:
        process.left.append(lambda: _barrier_over(process, effect, claims))
    elif claims is process.claims and process.running:
        process.scene.barrier_over(process, effect)
        process.request(ev.WorkOver(effect.seat, effect.token))


def _watch(process: Process, effect: ev.Watch) -> None:
    process.watching = effect.locks
    process.scene.watches(process)


def _live(process: Process, effect: ev.Live) -> None:
    process.live = True
    process.scene.joined(process)


def _restart(process: Process, effect: ev.Restart) -> None:
    old = process.id
    if process.claims is not None:
        process.seen = process.claims.largest_token
    process.scene.restarts(process, effect)
    process.scene.ended(process, old)
    process.begin()


def _end(process: Process, effect: ev.Closed | ev.Stop) -> None:
    process.over = effect
    process.live = False
    process.scene.over(process, effect)
    process.scene.ended(process, process.id)


def _report(process: Process, effect: ev.Report) -> None:
    process.scene.reported(process, effect)


def _trim(process: Process, effect: ev.Trim) -> None:
    process.scene.may_trim(process, effect)


def _wake(process: Process, effect: ev.Wake) -> None:
    process.wake_at = effect.at


def _moved(process: Process, effect: ev.Moved) -> None:
    pass


CARRY: Final[dict[type[ev.Effect], Callable[[Process, Any], None]]] = {
    ev.Append: _append,
    ev.Lead: _lead,
    ev.Extend: _extend,
    ev.Follow: _follow,
    ev.Barrier: _barrier,
    ev.Watch: _watch,
    ev.Live: _live,
    ev.Restart: _restart,
    ev.Closed: _end,
    ev.Stop: _end,
    ev.Report: _report,
    ev.Trim: _trim,
    ev.Wake: _wake,
    ev.Moved: _moved,
}
