"""`pares doctor` on groups that run NELI, or would: by the real command."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_log import pares

import pares as library


@pytest.fixture
def url(tmp_path: Path) -> str:
    where = f"sqlite:///{tmp_path}/work.db"
    library.open(f"{where}?partitions=2").close()
    return where


def test_the_sum_is_shown_and_the_clock_error_measured(url: str) -> None:
    found = pares(
        "doctor", "--ledger", url, "--protocol", "neli", "--T", "2", "--session", "6", "--clock-error", "0.5", "--json"
    )
    assert found.code == 0, found.err
    facts = found.json["induction"]
    assert (facts["T_ms"], facts["clock_error_ms"], facts["sum_ms"], facts["session_ms"]) == (2000, 500, 2500, 6000)
    measured = facts["measured"]
    assert measured["low_ms"] <= 0 <= measured["high_ms"]
    assert measured["bound_ms"] < 500
    assert measured["appends"] == 32
    text = pares("doctor", "--ledger", url, "--protocol", "neli", "--T", "2", "--session", "6").out
    assert "T + clock_error = 2000 ms + 0 ms = 2000 ms" in text
    assert "shortest round trip" in " ".join(text.split())


def test_a_sum_that_is_not_sound_ends_with_1(url: str) -> None:
    found = pares(
        "doctor", "--ledger", url, "--protocol", "neli", "--T", "5.9", "--clock-error", "0.1", "--session", "6"
    )
    assert found.code == 1
    assert "5900 ms + 100 ms = 6000 ms" in " ".join(found.out.split())


def test_fast_neli_with_nothing_set_has_gonelis_deadline_within_a_session_of_six_seconds(url: str) -> None:
    found = pares("doctor", "--ledger", url, "--protocol", "fast-neli", "--session", "6", "--json")
    assert found.code == 0, found.err
    facts = found.json["induction"]
    assert (facts["session_ms"], facts["T_ms"], facts["interval_ms"]) == (6000, 2000, 400)
    assert "the deadline of 2000 ms is below the group's session of 6000 ms" in str(found.json["findings"])


def test_a_group_that_runs_it_needs_no_options(url: str) -> None:
    with library.Member(url, group="g", roles=["0", "1"], protocol="neli", session=4.0) as me:
        assert me.wait("0", 60)
        assert me.wait("1", 60)
        found = pares("doctor", "--ledger", url, "--group", "g", "--json")
        assert found.code == 0, found.out
        assert found.json["induction"]["protocol"] == "neli"
        assert [t["leads"] for t in found.json["induction"]["tenures"]] == [True, True]
        levels = {finding["check"]: finding["level"] for finding in found.json["findings"]}
        assert levels["threshold"] == levels["clock-error"] == levels["measured"] == "good"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--T", "1"], "say --protocol neli or fast-neli"),
        (["--protocol", "fast-neli", "--clock-error", "0.1"], "settings of --protocol neli"),
        (["--protocol", "claims"], "claims"),
        (["--protocol", "neli", "--T", "0"], "0"),
    ],
)
def test_words_that_do_not_go_together(url: str, words: list[str], says: str) -> None:
    found = pares("doctor", "--ledger", url, *words)
    assert found.code == 2
    assert says in found.err
