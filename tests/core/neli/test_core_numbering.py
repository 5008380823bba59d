"""Named roles are numbered by the log: evenly, the same for all, and never beside members that know the hash only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from neli_bench import Bench, config, fast, leading, neli, of

from pares.core import events as ev
from pares.core.neli.history import Chronicle
from pares.core.neli.role_mapping import Numbering, partition_of_role
from pares.core.wire.hashes import stable_hash
from pares.core.wire.neli_records import NUMBERED, Announce, Number, PartitionCount, Place, RolesChanged, Share, decode

NAMES = ("AAPL", "MSFT", "NVDA", "TSLA")


def number(names: tuple[str, ...] = (), numbers: tuple[int, ...] = (), whole: int = 0) -> Number:
    return Number(v=1, g="g", m="x~1", n=1, b=0, s=0, at=0, names=names, numbers=numbers, whole=whole)


def owner_of_all(kind: Any = fast, **fields: Any) -> Bench:
    bench = Bench(kind(config(**fields)))
    bench.step(ev.Assigned(tuple(range(len(bench.core.parts)))))
    bench.read()
    bench.go()
    return bench


def share(bench: Bench, names: tuple[str, ...] = NAMES) -> list[int]:
    return [bench.core.roles.partition(name) for name in names]


@pytest.mark.parametrize("kind", [fast, neli])
@pytest.mark.parametrize(
    ("partitions", "expected"), [(2, [0, 1, 0, 1]), (3, [0, 1, 2, 0]), (4, [0, 1, 2, 3]), (8, [0, 1, 2, 3])]
)
def test_named_roles_share_out_evenly_over_the_partitions(kind: Any, partitions: int, expected: list[int]) -> None:
    bench = owner_of_all(kind, partitions=partitions, roles=NAMES)
    assert share(bench) == expected
    assert set(bench.leading()) == set(NAMES)
    tokens = {name: bench.leading()[name] for name in NAMES}
    for name, partition in zip(NAMES, expected, strict=True):
        assert tokens[name] == bench.core.parts[partition].token


@given(
    st.lists(st.text(min_size=1, max_size=8).filter(lambda s: s.isalpha()), min_size=1, max_size=40, unique=True),
    st.integers(1, 9),
)
def test_no_partition_has_two_roles_more_than_another(names: list[str], partitions: int) -> None:
    numbering = Numbering()
    numbering.fold(number(tuple(names)), 0)
    counts = [0] * partitions
    for name in names:
        found = numbering.number(name)
        assert found is not None
        counts[found % partitions] += 1
    assert max(counts) - min(counts) <= 1


def test_who_comes_later_reads_the_same_numbers_and_what_it_adds_moves_nobody() -> None:
    first = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    before = share(first, ("AAPL", "MSFT"))
    # The same logs: what the first has written, then what the second adds.
    second = Bench(fast(config(id="b~1", name="b", partitions=2, roles=("zzz", "MSFT", "AAPL"))), logs=first)
    first.read()
    first.go()
    assert share(first, ("AAPL", "MSFT", "zzz")) == [*before, 0]
    assert share(second, ("AAPL", "MSFT", "zzz")) == [*before, 0]
    assert "zzz" in first.leading(), "its partition is the first one's"


def test_a_name_keeps_its_number_when_its_role_goes() -> None:
    bench = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    bench.step(ev.ChangeRoles(drop=("AAPL",)))
    bench.go()
    assert set(bench.leading()) == {"MSFT"}
    bench.step(ev.ChangeRoles(add=("NVDA",)))
    bench.go()
    assert share(bench, ("MSFT", "NVDA", "AAPL")) == [1, 0, 0]
    bench.step(ev.ChangeRoles(add=("AAPL",)))
    for barrier in of(bench.go(), ev.Barrier):  # a role that was here before begins a new tenure of its partition
        bench.step(ev.WorkOver(barrier.seat, barrier.token))
    bench.go()
    assert share(bench, ("MSFT", "NVDA", "AAPL")) == [1, 0, 0]
    assert set(bench.leading()) == {"AAPL", "MSFT", "NVDA"}


def test_a_whole_number_is_its_own_and_a_name_that_nobody_declared_has_its_hash() -> None:
    bench = owner_of_all(partitions=4, roles=("AAPL", "7"))
    assert bench.core.roles.partition("7") == 3
    assert bench.core.roles.partition("nobody") == stable_hash("nobody") % 4 == partition_of_role("nobody", 4)
    assert set(bench.leading()) == {"AAPL", "7"}


def test_whoever_names_it_first_decides() -> None:
    """Two name at once: the order of the log says which number is whose, also to the one that came second."""
    bench = Bench(fast(config(partitions=2, roles=("mine",))), idle=True)
    bench.tick_until(Share)
    bench.write(Number, "x~1", names=("theirs",))
    bench.go()
    assert share(bench, ("theirs", "mine")) == [0, 1]


def test_a_role_is_led_only_where_its_number_is_known_to_belong() -> None:
    """Somebody names it where it does not belong by the numbers that the log gave."""
    bench = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    bench.write(Place, "x~1", 1, roles=("AAPL",), numbers=(1,))
    bench.read()
    bench.go()
    assert bench.leading()["AAPL"] == bench.core.parts[0].token
    assert of(bench.effects, ev.Follow) == []


# A log that forgets --------------------------------------------------------------------------------------------------------


def test_numbers_are_written_down_again_and_a_late_reader_finds_them() -> None:
    old = Numbering()
    old.fold(number(("a", "b")), 0)
    late = Numbering()
    late.enter(whole=False)
    for record in (number(("c",)), number(("a", "b"), (0, 1), whole=2), number(("d",))):
        old.fold(record, 0)
        late.fold(record, 0)
    assert late.complete
    assert late.of == old.of == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_a_late_reader_that_gets_no_answer_numbers_what_it_has_read() -> None:
    bench = Bench(fast(config(roles=("AAPL",), partitions=2)), start=7)
    bench.step(ev.Assigned((0, 1)))
    bench.read()
    bench.go()
    assert "AAPL" not in bench.core.roles.numbering.of, "somebody may know another number"
    for _ in range(30):
        bench.wait(100)
        bench.go()
    assert bench.core.roles.numbering.of == {"AAPL": 0}
    assert set(bench.leading()) == {"AAPL"}


def test_who_leads_the_first_partition_answers_whoever_comes() -> None:
    bench = leading(fast(config(roles=("AAPL", "MSFT"))))
    bench.write(Share, "new~1", of=1)
    bench.read()
    bench.go()
    said = [r for _, _, payload in bench.logs[0] if isinstance(r := decode(payload), Number) and r.numbers]
    assert [(r.names, r.numbers, r.whole) for r in said] == [(("AAPL", "MSFT"), (0, 1), 2)]


def restated(bench: Bench) -> int:
    return sum(isinstance(r := decode(payload), Number) and bool(r.numbers) for _, _, payload in bench.logs[0])


@pytest.mark.parametrize("another", [True, False])
def test_a_standby_answers_a_newcomer_in_its_turn_unless_another_has(another: bool) -> None:
    """The newcomer numbers anew after two sessions, and may be the leader of the first partition itself: then a role would
    belong to two partitions."""
    bench = Bench(neli(config(roles=("AAPL", "MSFT"))))
    bench.write(Share, "lost~1", of=1)
    bench.read()
    bench.go()
    bench.wait(400)
    bench.go()
    assert restated(bench) == 0, "the leader has half a session to answer"
    if another:
        bench.write(Number, "x~1", names=("AAPL", "MSFT"), numbers=(0, 1), whole=2)
    for _ in range(15):
        bench.wait(50)
        bench.read()
        bench.go()
    assert restated(bench) == 1


def test_a_standby_writes_the_numbers_down_when_nobody_leads_to_do_it() -> None:
    bench = Bench(neli(config(roles=("AAPL",), restate_ms=1000)))
    assert not bench.leading()
    for _ in range(60):
        bench.wait(50)
        bench.go()
    assert any(isinstance(r := decode(payload), Number) and r.numbers == (0,) for _, _, payload in bench.logs[0])


def test_two_who_say_different_numbers_are_reported_and_the_first_counts() -> None:
    bench = leading(fast(config(roles=("AAPL", "MSFT"))))
    bench.write(Number, "x~1", names=("AAPL",), numbers=(1,), whole=2)
    bench.read()
    assert bench.core.roles.numbering.of["AAPL"] == 0
    assert [e.kind for e in bench.effects if isinstance(e, ev.Report | ev.Stop)] == ["role-numbers"]


def test_where_the_first_log_is_another_one_nobody_leads_anywhere_before_all_have_noticed() -> None:
    bench = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    assert set(bench.leading()) == {"AAPL", "MSFT"}
    bench.step(ev.Jumped("replaced"))
    assert not bench.leading(), "the numbers are gone with it, of all roles"
    bench.logs[0], bench.ends[0] = [], 0
    bench.step(ev.Attached(0, 0))
    bench.read()
    bench.go()
    assert not bench.leading()
    for _ in range(20):
        bench.wait(20)
        bench.go()
    assert set(bench.leading()) == {"AAPL", "MSFT"}
    assert share(bench, ("AAPL", "MSFT")) == [0, 1]


def test_where_all_logs_have_forgotten_roles_are_placed_when_they_have_numbers_again_and_not_before() -> None:
    """Placed without a number a role goes by its hash, which is not its number: so it was placed again and again."""
    bench = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    starts = list(bench.ends)
    for number in range(2):
        bench.step(ev.Jumped("forgotten", number))
    bench.logs = [[], []]
    for number in range(2):
        bench.step(ev.Attached(starts[number], starts[number], number))
    for _ in range(120):
        bench.wait(20)
        for put in bench.tick():
            bench.put(put)
        bench.read()
    places = [r for log in bench.logs for _, _, payload in log if isinstance(r := decode(payload), Place)]
    assert sorted((place.roles, place.numbers) for place in places) == [(("AAPL",), (0,)), (("MSFT",), (1,))]
    assert set(bench.leading()) == {"AAPL", "MSFT"}


# Members of release 0.1 ----------------------------------------------------------------------------------------------------


def by_hash(bench: Bench) -> bool:
    return share(bench, NAMES) == [stable_hash(name) % len(bench.core.parts) for name in NAMES]


@pytest.mark.parametrize("kind", [fast, neli])
def test_where_older_members_are_the_hash_is_in_force_for_all(kind: Any) -> None:
    bench = Bench(kind(config(partitions=4, roles=NAMES)), idle=True)
    for partition in range(4):
        bench.write(PartitionCount, "old~1", partition, of=4)
    bench.go()
    bench.step(ev.Assigned((0, 1, 2, 3)))
    bench.read()
    bench.go()
    assert not bench.core.roles.numbered
    assert by_hash(bench)
    assert set(bench.leading()) == set(NAMES)
    said = [decode(payload) for log in bench.logs for _, _, payload in log]
    assert not any(isinstance(r, Share | Number | Place) for r in said), "what older members do not know"
    assert {r.protocol for r in said if isinstance(r, Announce)} == {bench.core.rules.name}


@pytest.mark.parametrize("partition", [0, 1])
def test_an_older_member_that_comes_ends_every_belief_that_rests_on_numbers(partition: int) -> None:
    bench = owner_of_all(partitions=2, roles=NAMES)
    bench.write(PartitionCount, "old~1", partition, of=2)
    (end,) = of(bench.read(), ev.Restart)
    assert "old~1 knows the roles of group 'g' by the hash" in end.why
    assert not bench.leading()
    again = Bench(fast(config(id="me~2", partitions=2, roles=end_roles(bench))), logs=bench)
    assert not again.core.roles.numbered
    assert by_hash(again)


def end_roles(bench: Bench) -> tuple[str, ...]:
    return bench.core.roles.names


def test_who_goes_by_the_hash_waits_for_those_who_went_by_numbers() -> None:
    bench = Bench(fast(config(partitions=2, roles=NAMES)), idle=True)
    bench.write(PartitionCount, "old~1", of=2)
    bench.write(Announce, "numbered~1", 1, protocol=f"fast-neli{NUMBERED}", b=1)
    bench.go()
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.go()
    assert not bench.leading(), "it may believe in a role that is this partition's by the hash"
    for _ in range(25):
        bench.wait(20)
        bench.go()
    assert bench.leading()


def test_an_older_member_is_refused_beside_one_that_goes_by_numbers() -> None:
    """As release 0.1 does it: it finds another protocol in the announcement."""
    bench = owner_of_all(roles=("AAPL",))
    (announce,) = [r for _, _, payload in bench.logs[0] if isinstance(r := decode(payload), Announce)]
    assert announce.protocol == "fast-neli+numbers" != "fast-neli"


def test_who_goes_by_the_hash_tells_a_newcomer() -> None:
    bench = Bench(fast(config(roles=("AAPL",))), idle=True)
    bench.write(PartitionCount, "old~1", of=1)
    bench.go()
    widths = sum(isinstance(decode(payload), PartitionCount) for _, _, payload in bench.logs[0])
    bench.write(Share, "new~1", of=1)
    bench.read()
    bench.go()
    assert sum(isinstance(decode(payload), PartitionCount) for _, _, payload in bench.logs[0]) == widths + 1


def test_a_role_that_an_older_administrator_adds_gets_its_number() -> None:
    bench = owner_of_all(partitions=2, roles=("AAPL", "MSFT"))
    bench.write(RolesChanged, "admin~1", stable_hash("NVDA") % 2, add=("NVDA",))
    bench.read()
    bench.go()
    assert bench.core.roles.partition("NVDA") == 0
    assert set(bench.leading()) == {"AAPL", "MSFT", "NVDA"}


# Looking on -----------------------------------------------------------------------------------------------------------------


def test_who_looks_on_finds_the_roles_in_their_partitions() -> None:
    bench = owner_of_all(partitions=3, roles=NAMES)
    for partition, roles in enumerate((["AAPL", "TSLA"], ["MSFT"], ["NVDA"])):
        chronicle = Chronicle("g", partition)
        for entry in bench.logs[partition]:
            chronicle.feed(entry)  # type: ignore[arg-type]
        assert sorted(role for role, _ in chronicle.seats()) == roles
        assert chronicle.senders["me~1"].protocol == "fast-neli"


# An announcement that was lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [fast, neli])
def test_a_lost_announcement_that_lands_late_is_not_taken_for_the_newest(kind: Any) -> None:
    """It failed as far as its sender knows, which has announced itself anew; now both land, in their order. The tenure is the
    newest one's: by the older one's token others would take its owner for one that believes in nothing any more."""
    bench = Bench(kind(config()))
    bench.step(ev.Assigned((0,)))
    bench.read()
    bench.read()
    (lost,) = bench.tick()
    assert isinstance(decode(lost.payloads[0]), Announce)
    bench.step(ev.Failed(lost.ticket, unknown=True))
    bench.wait(20)
    (again,) = bench.tick()
    assert isinstance(decode(again.payloads[0]), Announce)
    bench.land(lost.payloads[0])
    bench.read()
    assert not bench.leading(), "by a tenure that ends with the announcement that is under way"
    offset = bench.put(again)
    bench.read()
    bench.go()
    assert bench.leading() == {"0": decode(again.payloads[0]).b + offset}  # type: ignore[union-attr]
    beats = [r for _, _, payload in bench.logs[0] if getattr(r := decode(payload), "term", 0)]
    assert {r.term for r in beats} == {bench.leading()["0"]}  # type: ignore[union-attr]
    assert not of(bench.effects, ev.Follow)
    assert not of(bench.effects, ev.Stop)
