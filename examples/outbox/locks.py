"""Ways to say whose shard it is. Only the first has something to show where the events land."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

import pares
from examples.outbox.poller import BATCH, PAUSE, Poller, Settings, again_and_again
from examples.outbox.shop import Connection
from pares.fence import SqlFence


def by_pares(settings: Settings, fenced: bool = True) -> None:
    """A role for each shard. Its term's token goes to the fence in the topic's own database, with every batch."""
    pares.leave_on_signals()
    fence = SqlFence(group="outbox", stall=2 * settings.session)
    roles = [f"shard-{number}" for number in range(settings.shards)]
    with pares.Member(settings.ledger, group="outbox", roles=roles, name=settings.name, session=settings.session) as me:

        def lead(shard: int) -> None:
            terms = me.terms(roles[shard])

            def turn(poller: Poller) -> None:
                term = next(terms)

                def check(topic: Connection) -> None:
                    fence.check(topic, term)

                poller.work(shard, lambda: bool(term), check if fenced else _nothing, term.token)

            again_and_again(settings, turn)

        _for_each_shard(settings, lead)


def without_fence(settings: Settings) -> None:
    """The same, but nobody looks at the token: a term is over in time, and a batch may be on its way all the same."""
    by_pares(settings, fenced=False)


def by_lease(settings: Settings) -> None:
    """A row for each shard says who has it and until when, by the database's clock; its holder looks at its own besides."""

    def hold(shard: int) -> None:
        def turn(poller: Poller) -> None:
            until = 0.0

            def mine() -> bool:
                nonlocal until
                asked = time.monotonic()
                done = poller.orders.execute(
                    "UPDATE leases SET owner = %s, until = now() + make_interval(secs => %s) "
                    "WHERE shard = %s AND (owner = %s OR until < now())",
                    (poller.name, settings.session, shard, poller.name),
                )
                if done.rowcount:
                    until = asked + settings.session
                return time.monotonic() < until

            if mine():
                poller.work(shard, mine, _nothing)
            time.sleep(PAUSE)

        again_and_again(settings, turn)

    _for_each_shard(settings, hold)


def by_advisory_lock(settings: Settings) -> None:
    """An advisory lock of the session. It lasts as long as the session, so the server is asked to end silent ones: without
    that, the shard of a frozen poller would be nobody's for as long as it is frozen."""

    def hold(shard: int) -> None:
        def turn(poller: Poller) -> None:
            poller.orders.execute(f"SET idle_session_timeout = '{settings.session:g}s'".encode())
            if poller.orders.execute("SELECT pg_try_advisory_lock(%s)", (shard,)).fetchone() == (True,):
                poller.work(shard, lambda: poller.orders.execute("SELECT 1") is not None, _nothing)
            time.sleep(PAUSE)

        again_and_again(settings, turn)

    _for_each_shard(settings, hold)


def by_skip_locked(settings: Settings) -> None:
    """No shards: each poller takes the next events that nobody has, for a time (`FOR UPDATE SKIP LOCKED`)."""

    def turn(poller: Poller) -> None:
        taken = poller.orders.execute(
            "UPDATE outbox SET locked_until = now() + make_interval(secs => %s) WHERE (shard, seq) IN ("
            "SELECT shard, seq FROM outbox WHERE locked_until < now() ORDER BY seq LIMIT %s FOR UPDATE SKIP LOCKED"
            ") RETURNING shard, seq, event",
            (settings.session, BATCH),
        ).fetchall()
        if not taken:
            time.sleep(PAUSE)
            return
        poller.publish(sorted(taken), _nothing)
        for shard, seq, _ in taken:
            poller.orders.execute("DELETE FROM outbox WHERE shard = %s AND seq = %s", (shard, seq))

    again_and_again(settings, turn)


def _nothing(topic: object) -> None:
    """Locks have nothing to show to the database where events land."""


def _for_each_shard(settings: Settings, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(shard,), daemon=True) for shard in range(settings.shards)]
    for thread in threads:
        thread.start()
    while True:
        time.sleep(0.1)


KINDS: Final[dict[str, Callable[[Settings], None]]] = {
    "pares": by_pares,
    "pares, no fence": without_fence,
    "lease": by_lease,
    "advisory": by_advisory_lock,
    "skip-locked": by_skip_locked,
}
