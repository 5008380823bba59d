"""The benchmarks of NELI: their arithmetic, and that they run."""

from __future__ import annotations

import re
from argparse import Namespace

import pytest
from bench.neli.cases import SETTINGS, SIZES, cases, longest_gap_ms
from bench_run import is_spread, measured

from pares import FastNeli
from pares.runtime.neli.settings import usual_deadline_ms


def test_the_longest_silence_counts_from_the_windows_beginning_to_its_end() -> None:
    assert longest_gap_ms([], 100, 300) == 200
    assert longest_gap_ms([150, 160], 100, 300) == 140
    assert longest_gap_ms([290, 110, 200, 50, 999], 100, 300) == 90


def test_every_setting_has_its_cases_and_goes_together() -> None:
    """Deadlines and beats that a member would refuse are no use to a benchmark."""
    named = cases(Namespace(quick=True, rounds=50))
    assert {f"{what}-{key}" for key in SETTINGS for what in ("crash", "close")} <= named.keys()
    assert {"groups-neli", "members-neli", "groups-nele", "members-nele", "groups-fast"} <= named.keys()
    assert (SIZES[0], SIZES[-1]) == (1, 50)
    for setting in SETTINGS.values():
        if not isinstance(setting.own, FastNeli):
            continue
        deadline = setting.own.heartbeat_timeout or usual_deadline_ms(round(setting.session * 1000)) / 1000
        assert (setting.own.poll_interval or 0) * 2 < deadline < setting.session


@pytest.mark.brokers
@pytest.mark.timeout(400)
def test_a_quick_run() -> None:
    only = ("crash-quick", "close-quick", "groups-fast")
    rows = measured("--protocol", "neli", *(word for case in only for word in ("--only", case)))
    assert [row["what"].split(",")[0] for row in rows] == [
        "crash takeover",
        "closing the leader",
        *["fast-neli"] * 3,
    ]
    for row in rows[:2]:
        assert is_spread(row["figures"], "s"), row
    for row in rows[2:]:
        assert re.fullmatch(r"\d+ records/s, no partition silent for more than \d+ ms", row["figures"]), row
