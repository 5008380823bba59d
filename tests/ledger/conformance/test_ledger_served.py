"""A log that a service keeps and tells of: what its followers hear when it goes, and another one takes its place."""

import threading

import pytest
from ledger_stages import ServedStage
from log_tools import HANG, payloads, read_all, until

import pares
from pares.core.errors import LedgerRewound, LedgerUnavailable


def test_a_log_that_was_made_anew_is_heard_of_without_asking(served: ServedStage) -> None:
    ledger = served.open(timeout=5)
    bell = ledger.bell()
    assert bell is not None
    ledger.append_many([b"old"] * 5)
    assert len(read_all(ledger, timeout=HANG)) == 5
    assert ledger.read(5, timeout=0.1) == []
    before = ledger.identity()
    served.delete()
    for _ in range(served.unsure):
        with pytest.raises(LedgerUnavailable):
            ledger.append(b"into nothing")
    for _ in range(2 - served.unsure):
        with pytest.raises(LedgerUnavailable, match=r"not there|is gone") as caught:
            ledger.append(b"into nothing")
        assert caught.value.unknown is False
    assert not served.there(), "an append must not make a log"
    other = served.open(timeout=5)
    until(lambda: ledger.identity() != before)
    with pytest.raises(LedgerRewound):
        ledger.read(5)
    assert ledger.append(b"new") == 0
    assert payloads(ledger) == [b"new"]
    # The tail follows the new one.
    assert ledger.read(1, timeout=0.05) == []
    threading.Timer(0.2, other.append, [b"newer"]).start()
    assert [entry.payload for entry in ledger.read(1, timeout=HANG)] == [b"newer"]
    bell.close()


def test_a_longer_log_in_the_place_of_the_old_one(served: ServedStage) -> None:
    ledger = served.open()
    bell = ledger.bell()
    assert bell is not None
    ledger.append_many([b"old"] * 3)
    assert len(read_all(ledger)) == 3
    before = ledger.identity()
    served.delete()
    served.open().append_many([b"new"] * 9)
    until(lambda: ledger.identity() != before)
    assert payloads(ledger, 3) == [b"new"] * 6
    assert ledger.append(b"x") == 9
    bell.close()


def test_members_make_a_log_that_is_gone_anew_and_go_on(served: ServedStage) -> None:
    """Nobody has to open it again. It is another log: beliefs that rest on the old one end (R12), and tokens rise."""
    served.open(partitions=2).close()
    with (
        pares.Member(served.url, group="g", roles=["r"], session=served.session, name="a") as a,
        pares.Member(served.url, group="g", roles=["r"], session=served.session, name="b") as b,
    ):
        until(lambda: a.holds("r") or b.holds("r"))
        until(lambda: len(a.members()) == len(b.members()) == 2)
        holder = a if a.holds("r") else b
        had = holder.term("r")
        assert had is not None
        served.delete()
        until(lambda: not had)
        until(lambda: a.holds("r") or b.holds("r"), 2 * HANG)
        again = (a if a.holds("r") else b).term("r")
        assert again is not None
        assert again.token > had.token
        until(lambda: a.health().restarts > 0 and b.health().restarts > 0)
        until(lambda: len(a.members()) == len(b.members()) == 2)
    assert served.open().partitions == 2, "as many as there were"


def test_whoever_only_looks_on_makes_no_log_anew(served: ServedStage) -> None:
    ledger = served.open()
    ledger.append(b"old")
    before = ledger.identity()
    onlooker = served.open(readonly=True)
    assert onlooker.identity() == before
    served.delete()

    def told() -> bool:
        try:
            onlooker.identity()
        except LedgerUnavailable as error:
            return not error.unknown
        return False

    until(told)
    assert not served.there()
    until(lambda: ledger.identity() != before)
    assert served.there()
    assert payloads(ledger) == []
    assert ledger.append(b"new") == 0
    until(lambda: payloads(onlooker) == [b"new"])
