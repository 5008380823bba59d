"""What a member writes, and what it knows of it afterwards (R2, R4, R5): numbers, times, failures, deafness, doubt."""

from __future__ import annotations

import pytest
from core_authors import GROUP, began, world_of

from pares.core.claims.outbox import MAX_BATCH, Outbox
from pares.core.errors import ConfigError
from pares.core.events import Append
from pares.core.lease import MS
from pares.core.wire import records as R

LEASE = 800 * MS


def outbox() -> Outbox:
    return Outbox(GROUP, "a~1", 1000, LEASE)


WORLD = world_of(began("a~1")[0])


def send(box: Outbox, now: int, count: int = 1) -> int:
    """Writes beats and hands them over; returns the ticket."""
    return post(box, now, count).ticket


def post(box: Outbox, now: int, count: int = 1) -> Append:
    """The same; returns the append."""
    for _ in range(count):
        box.write(WORLD, R.Beat, now)
    append = box.flush(now)
    assert append is not None
    assert len(append.payloads) == count
    return append


def counted(box: Outbox, payload: bytes) -> int | None:
    """From when a lease counts once this record was read back; None if the outbox does not take it for its own."""
    return box.sent.counted if box.sent.read_back(R.decode(payload).n, payload) else None


def test_r4_number_content_and_time_are_fixed_at_writing() -> None:
    box = outbox()
    box.due_ms = 250
    box.write(WORLD, R.Release, 70, seat=("A", 0), token=5, why="closed")
    append = box.flush(70)
    assert append is not None
    record = R.decode(append.payloads[0])
    assert isinstance(record, R.Release)
    assert (record.n, record.b, record.s, record.m, record.g) == (1, WORLD.base, 250, "a~1", GROUP)
    assert counted(box, append.payloads[0]) == 70


def test_r4_a_retry_is_a_new_record() -> None:
    box = outbox()
    first = post(box, 100)
    assert box.failed(first.ticket, 200, True)
    again = post(box, 300)
    assert [counted(box, append.payloads[0]) for append in (first, again)] == [100, 300]


def test_one_append_is_one_batch_and_its_ticket_is_known_before() -> None:
    box = outbox()
    expected = box.next_ticket
    assert box.idle
    assert box.flush(1) is None
    assert send(box, 1, 3) == expected == box.in_flight
    assert box.next_ticket == expected + 1


def test_a_batch_has_room_for_so_many_and_no_more() -> None:
    box = outbox()
    for _ in range(MAX_BATCH):
        assert box.room()
        box.write(WORLD, R.Beat, 1)
    assert not box.room()
    box.flush(1)
    assert box.room()
    for _ in range(4):
        fields = {"upto": 1, "id": "s", "part": 0, "parts": 1, "world": "x" * 600_000}
        assert box.room()
        box.write(WORLD, R.Snapshot, 1, **fields)
    assert not box.room()


def test_an_answer_to_another_append_is_not_an_answer() -> None:
    box = outbox()
    old = send(box, 1)
    assert box.failed(old, 2, True)
    new = send(box, 3)
    assert not box.acked(old, 9, 0)
    assert not box.failed(old, 4, True)
    assert box.in_flight == new
    assert box.acked(new, 10, 0)
    assert not box.acked(new, 10, 0)


def test_quiet_is_when_everything_acknowledged_has_been_read() -> None:
    box = outbox()
    box.acked(send(box, 1), 10, 5)
    assert not box.quiet
    box.read_up_to(10, own=False)
    assert not box.quiet
    box.read_up_to(11, own=True)
    assert box.quiet
    box.acked(send(box, 2), 12, 13)
    assert box.quiet, "it was read before the answer came"


def test_r2_deaf_is_who_has_not_read_what_it_wrote_when_its_lease_is_over() -> None:
    box = outbox()
    assert not box.deaf(10**12, 0), "who has nothing to read back is not deaf, it is only late"
    box.acked(send(box, 100), 10, 5)
    assert not box.deaf(101, 500)
    assert box.deaf(500, 500)
    assert not box.deaf(100 + LEASE - 1, 10**12)
    assert box.deaf(100 + LEASE, 10**12)
    box.read_up_to(11, own=True)
    assert not box.deaf(10**12, 0)


def test_r2_in_doubt_is_whose_appends_end_unknown_for_a_lease_with_nothing_read_back() -> None:
    box = outbox()
    box.failed(send(box, 100), 200, True)
    box.failed(send(box, 300), 400, True)
    assert not box.doubtful(100 + LEASE - 1)
    assert box.doubtful(100 + LEASE)
    assert box.probe_at() - box.last_at > 1000 * MS, "whoever waits for its silence gets it"
    box.read_up_to(50, own=False)
    assert box.doubtful(100 + LEASE), "records of others say nothing of its own"
    box.read_up_to(51, own=True)
    assert not box.doubtful(10**12)


def test_r2_a_failure_that_is_certain_leaves_no_doubt() -> None:
    box = outbox()
    box.failed(send(box, 100), 200, False)
    assert not box.doubtful(10**12)


def test_r8_what_certainly_never_landed_is_forgotten_and_what_may_have_is_not() -> None:
    box = outbox()
    unknown = post(box, 100)
    box.failed(unknown.ticket, 200, True)
    certain = post(box, 300, 2)
    box.failed(certain.ticket, 400, False)
    assert counted(box, unknown.payloads[0]) == 100
    assert [counted(box, payload) for payload in certain.payloads] == [None, None]
    later = post(box, 500)
    assert R.decode(later.payloads[0]).n == 4, "numbers are not used again"
    assert counted(box, later.payloads[0]) == 500


def test_r8_an_outage_of_hours_does_not_fill_the_memory() -> None:
    box = outbox()
    now = 0
    for _ in range(5000):
        now = max(now + 1, box.retry_at)
        box.failed(send(box, now), now, True)
    assert now > 5000 * 100 * MS, "it tries more and more seldom"
    assert box.retry_at - now <= 250 * MS, "and still often enough to be back within a session"
    box.acked(send(box, now), 5, 0)
    box.failed(send(box, now), now, True)
    assert box.retry_at - now <= 50 * MS, "after a success it begins quickly again"


def test_r16_what_the_last_record_promised_is_kept() -> None:
    box = outbox()
    box.due_ms = 250
    send(box, 100)
    box.due_ms = 5000
    assert box.promised_ms == 250


def test_what_nobody_would_count_is_refused_before_it_is_sent() -> None:
    box = outbox()
    with pytest.raises(ConfigError):
        box.write(WORLD, R.Release, 1, seat=("A", 0), token=1, why="x" * 2000)
    assert box.idle
