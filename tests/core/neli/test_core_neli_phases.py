"""The tables of phases, walked row by row: what a row must never do, and that a partition does what its row says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from neli_bench import config

from pares.core import events as ev
from pares.core.neli.partition import Partition
from pares.core.neli.phases import (
    AT_BARRIER,
    AT_REST,
    BELIEVING,
    EXCLUSIVE,
    GIVEN,
    NON_EXCLUSIVE,
    SEEKING,
    STANDING,
    Act,
    Impossible,
    On,
    Phase,
    Row,
    Table,
)

SEATS = [("a", 0), ("b", 0)]
ANY_TIME = (On.ASSIGNED, On.REVOKED, On.LOST, On.REPLACED, On.RENUMBERED, On.ENDED)
"""What the group and the ledger do, whatever a member is about."""
TABLES = {"exclusive": EXCLUSIVE, "NELE": NON_EXCLUSIVE}


def rows() -> Iterator[tuple[str, Phase, On, Row]]:
    """All of them; one without consequences leads back, by no act."""
    for name, table in TABLES.items():
        for phase, row in table.items():
            for what, then in row.items():
                yield name, phase, what, then or (phase,)


ROWS = list(rows())
IDS = [f"{name}: {phase.name} {what.name}" for name, phase, what, _ in ROWS]


def partition(table: Table, phase: Phase) -> Partition:
    """A partition in that phase, whose tenure 7 stands in the log, and led two roles if it has come to lead."""
    part = Partition(0, config(), table)
    part.phase, part.token, part.stands, part.until = phase, 7, 7, 10**9
    if phase in (*BELIEVING, *AT_BARRIER, Phase.GRACE):
        part.seats = list(SEATS)
    if phase in AT_BARRIER:
        part.returning = {SEATS[1]}
    return part


@pytest.mark.parametrize(("name", "phase", "what", "row"), ROWS, ids=IDS)
def test_a_partition_does_what_its_row_says(name: str, phase: Phase, what: On, row: Row) -> None:
    part, effects = partition(TABLES[name], phase), list[ev.Effect]()
    part.on(what, 5, effects, "because", at=4)
    then, *acts = row
    assert part.phase is then
    told = [(type(effect), getattr(effect, "fenced", None)) for effect in effects]
    planned, fenced = [(ev.Follow, False), (ev.Barrier, None)], [(ev.Follow, True)]
    if Act.LEAD in acts:
        assert effects == [ev.Lead(seat, 7, 10**9, "because") for seat in SEATS]
    elif Act.STOP in acts or Act.END in acts:
        assert told == planned * 2
        assert {effect.why for effect in effects if isinstance(effect, ev.Barrier)} == {"because"}
    elif Act.FENCE in acts:
        assert told == fenced * (1 if phase in AT_BARRIER else 2), "of barriers those that have not returned"
    else:
        assert effects == []
    assert part.owed == ("because" if Act.OWE in acts else None)
    assert not (part.seats and then in AT_REST)
    if then in SEEKING and TABLES[name][phase][what] is not None:
        assert (part.looks, part.wanted_at) == (0, 5), "its log is looked at anew"
    if phase in BELIEVING and then not in BELIEVING:
        assert part.ended_at == 4


@pytest.mark.parametrize(("name", "phase", "what", "row"), ROWS, ids=IDS)
def test_no_row_breaks_a_rule(name: str, phase: Phase, what: On, row: Row) -> None:
    then, *acts = row
    if then is Phase.GRACE:
        assert (phase is Phase.GRACE) or (what is On.ANNOUNCED and acts == [Act.BEGIN]), "N1: announced and read back"
    if then is Phase.LEADING and phase is not Phase.LEADING:
        waited = phase is Phase.GRACE and what is On.READY and acts == [Act.LEAD]
        assert waited or (phase is Phase.LINGERING and what is On.ASSIGNED), (
            "N2: after it has waited, or believing still"
        )
    if then in STANDING and phase in AT_REST:
        assert then is Phase.GRACE
    if phase in BELIEVING and then not in BELIEVING:
        assert len({Act.FENCE, Act.STOP, Act.END}.intersection(acts)) == 1, "a belief ends once, and is told of"
    if phase not in (*BELIEVING, *AT_BARRIER):
        assert not {Act.FENCE, Act.STOP, Act.END}.intersection(acts), "nothing was believed"
    if name == "exclusive" and what in (On.RIVAL, On.RIVAL_LEADS):
        assert then not in STANDING, "N3: it stops at once"
    if name == "exclusive" and what in (On.REVOKED, On.LOST):
        assert then not in BELIEVING, "N5"
    if what is On.LOST:
        assert Act.STOP not in acts, "N5: nobody waits"
    if phase in STANDING and then in AT_REST:
        # An announcement of its own closes the tenure as well; in a new log it doesn't stand.
        assert Act.OWE in acts or then is Phase.RETRYING or what in (On.REPLACED, On.ENDED), (
            "the next one need not wait"
        )
    if phase in GIVEN and then not in GIVEN:
        assert what in (On.REVOKED, On.LOST, On.ENDED)
    if phase not in GIVEN and then in GIVEN:
        assert what is On.ASSIGNED


@pytest.mark.parametrize("name", TABLES)
def test_what_others_do_has_a_row_in_every_phase(name: str) -> None:
    for phase, there in TABLES[name].items():
        assert set(ANY_TIME) <= there.keys(), phase
        assert {On.RIVAL, On.RIVAL_LEADS} <= there.keys(), phase


def test_every_phase_can_be_come_to_and_left() -> None:
    for table in TABLES.values():
        targets = {(then or (phase,))[0] for phase, there in table.items() for then in there.values()}
        assert targets == set(table)
    assert EXCLUSIVE.keys() | NON_EXCLUSIVE.keys() == set(Phase)
    used = {what for table in TABLES.values() for there in table.values() for what in there}
    assert used == set(On)


@pytest.mark.parametrize("name", TABLES)
def test_what_has_no_row_is_an_error_and_changes_nothing(name: str) -> None:
    tried = 0
    for phase in TABLES[name]:
        for what in set(On) - TABLES[name][phase].keys():
            part, effects = partition(TABLES[name], phase), list[ev.Effect]()
            with pytest.raises(Impossible, match=f"partition 0 is {phase.value}, and {what.value}"):
                part.on(what, 5, effects, "because")
            assert (part.phase, part.owed, effects) == (phase, None, [])
            tried += 1
    assert tried > 50


def test_a_barrier_of_nothing_is_over_at_once() -> None:
    part, effects = partition(EXCLUSIVE, Phase.LEADING), list[ev.Effect]()
    part.seats = []
    part.on(On.REVOKED, 5, effects, "revoked")
    assert (part.phase, part.owed, effects) == (Phase.IDLE, "revoked", [])
