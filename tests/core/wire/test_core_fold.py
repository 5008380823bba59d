"""The fold, over histories of every kind: each property names the rule that it holds to."""

from __future__ import annotations

import itertools

import pytest
from core_authors import GROUP, Plain
from core_histories import Author, histories
from core_judge import Judge, holders, readable
from hypothesis import given
from hypothesis import strategies as st

from pares.core.wire import records as R
from pares.core.wire.changes import SeatChanged
from pares.core.wire.reader import Reader
from pares.core.wire.world import World

LOCK = R.Lock(boot="b", device="d", inode="i", file="f")


pytestmark = pytest.mark.usefixtures("short_memory")


# Promise 5: same log, same world -------------------------------------------------------------------------------------


@given(histories(), st.lists(st.integers(0, 200), max_size=12))
def test_r1_readers_agree_on_every_prefix_whatever_their_batches(author: Author, cuts: list[int]) -> None:
    entries, plain, real = author.paper.entries, Plain(), Reader(GROUP)
    real.attach(0, 0)
    edges = sorted({0, len(entries), *(cut % (len(entries) + 1) for cut in cuts)})
    for low, high in itertools.pairwise(edges):
        changes = real.feed(entries[low:high])
        before = len(plain.changes)
        plain.read_all(entries[low:high])
        assert changes == plain.changes[before:]
        assert real.world.dump() == plain.world.dump()
        assert real.world.digest() == World.load(plain.world.dump()).digest()
    assert real.places.keys() == plain.places.keys()


@given(histories())
def test_r1_timestamps_change_nothing(author: Author) -> None:
    shuffled = [(offset, 7919 * offset % 1000, payload) for offset, _, payload in author.paper.entries]
    assert Plain().read_all(shuffled).world.dump() == author.world.dump()


@given(histories())
def test_r10_the_digest_kept_up_to_date_is_that_of_the_world_loaded_afresh(author: Author) -> None:
    plain = Plain()
    for entry in author.paper.entries:
        plain.read(entry)
        fresh = World.load(plain.world.dump())
        assert plain.world.digest() == fresh.digest()
        assert plain.world.dump() == fresh.dump()


@given(histories())
def test_r10_different_worlds_have_different_digests(author: Author) -> None:
    """Each entry that changes the world's text changes its digest."""
    plain = Plain()
    seen: dict[str, str] = {}
    for entry in author.paper.entries:
        plain.read(entry)
        text, digest = plain.world.dump(), plain.world.digest()
        assert seen.setdefault(digest, text) == text


@given(histories())
def test_r10_a_reader_that_begins_at_any_place_lives_in_the_same_world(author: Author) -> None:
    places = Plain().read_all(author.paper.entries).places
    whole = author.world
    for upto, text in places.items():
        later = Plain()
        later.world = World.load(text)
        later.read_all(author.paper.since(upto))
        assert later.world.dump() == whole.dump()
        assert later.world.digest() == whole.digest()


# R2: what counts -----------------------------------------------------------------------------------------------------


@given(histories())
def test_r2_what_counts_is_what_the_rule_says(author: Author) -> None:
    plain, judge = Plain(), Judge()
    for entry in author.paper.entries:
        record = readable(entry)
        counted = plain.read(entry)
        assert counted == (record is not None and judge.must_count(entry[0], record)), entry
        if counted and record is not None:
            judge.note(entry[0], record)
            judge.forgotten(plain.world)


@given(histories())
def test_r2_what_does_not_count_changes_nothing_at_all(author: Author) -> None:
    plain = Plain()
    for entry in author.paper.entries:
        before, digest, changes = plain.world.dump(), plain.world.digest(), len(plain.changes)
        if not plain.read(entry):
            assert plain.world.dump() == before
            assert plain.world.digest() == digest
            assert len(plain.changes) == changes


@given(histories())
def test_r2_what_counts_is_a_sign_of_life_also_when_its_effect_is_refused(author: Author) -> None:
    plain = Plain()
    for entry in author.paper.entries:
        if not plain.read(entry):
            continue
        offset, record = plain.counted[-1]
        assert plain.world.last == offset or isinstance(record, R.Genesis)
        member = plain.world.members.get(record.m)
        if member is not None:
            assert (member.offset, member.n, member.due_ms) == (offset, record.n, record.s)
        else:
            assert isinstance(record, R.Leave | R.Genesis) or record.m in plain.world.gone


@given(histories(), st.integers(1, 20), st.integers(0, 5))
def test_r4_a_sender_counts_exactly_what_everybody_counts(author: Author, batch: int, who: int) -> None:
    """The lease of a sender hangs on `mine`: it must hold what the fold counted, no more and no less."""
    senders = sorted(author.pens) or ["nobody"]
    member = senders[who % len(senders)]
    reader = Reader(GROUP, member)
    reader.attach(0, 0)
    entries, mine = author.paper.entries, []
    for low in range(0, len(entries), batch):
        reader.feed(entries[low : low + batch])
        mine += [(offset, n) for offset, n, _ in reader.mine]
    counted = Plain().read_all(entries).counted
    assert mine == [(offset, record.n) for offset, record in counted if record.m == member]


# R3, R3a, R9, R15: seats, tokens, marks ------------------------------------------------------------------------------


@given(histories())
def test_r3a_r9_seats_change_hands_only_as_the_rules_say_and_no_token_falls(author: Author) -> None:
    plain, judge = Plain(), Judge()
    for entry in author.paper.entries:
        record, before = readable(entry), holders(plain.world)
        counted = plain.read(entry)
        if record is None or not counted:
            continue
        judge.judge_seats(entry[0], record, before, holders(plain.world))
        judge.note(entry[0], record)
        judge.forgotten(plain.world)


@given(histories())
def test_r9_every_token_told_is_above_those_before(author: Author) -> None:
    highest: dict[R.Seat, int] = {}
    for change in Plain().read_all(author.paper.entries).changes:
        if type(change) is SeatChanged and change.holder is not None:
            assert change.token > highest.get(change.seat, -1)
            highest[change.seat] = change.token


@given(histories())
def test_r15_marks_rise_by_their_holder_and_fall_only_by_rewind(author: Author) -> None:
    plain, judge = Plain(), Judge()
    for entry in author.paper.entries:
        record, held = readable(entry), holders(plain.world)
        before = {key: seat.mark for key, seat in plain.world.seats.items()}
        if not plain.read(entry) or record is None:
            continue
        judge.judge_marks(record, before, {key: seat.mark for key, seat in plain.world.seats.items()}, held)
        judge.note(entry[0], record)
        judge.forgotten(plain.world)


@given(histories())
def test_r3_one_member_never_holds_two_seats_of_a_role_and_what_is_derived_agrees(author: Author) -> None:
    plain = Plain()
    for entry in author.paper.entries:
        plain.read(entry)
        world = plain.world
        held: dict[str, set[R.Seat]] = {id: set() for id in world.members}
        for key, seat in world.seats.items():
            assert seat.seat == key
            assert seat.role in world.roles
            if seat.holder is not None:
                assert key[0] not in {role for role, _ in held[seat.holder]}, "two seats of one role"
                held[seat.holder].add(key)
            elif seat.index >= world.roles[seat.role].seats or world.roles[seat.role].removed:
                raise AssertionError(f"{key} is free and no longer wanted, and still there")
        assert world.held == held
        assert world.reads == min((m.reads for m in world.members.values()), default=R.MAX_INT)
        assert not world.members.keys() & world.gone.keys()
