"""The benchmarks' command, whatever they measure: where figures go in the document, and cases that are not there."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from bench.__main__ import kind_of
from bench.allcall import cases as allcall
from bench.compare import median, ratio, recorded
from bench.figures import BEGIN, END, put
from bench.neli import cases as on_neli
from bench.sections import CROWDS, FILES, IDLE_KAFKA, SQLITE, WITNESSES
from bench_run import ROOT, bench

from bench import on_kafka

KINDS = {
    "kafka": (
        ["--ledger", "kafka"],
        "no case on kafka: idel; there are roundtrip, handover, takeover, source, false, idle, witness, starts, crowd",
    ),
    "file": (
        ["--ledger", "file"],
        "no case on file: idel; there are takeover, handover, append, idle, thousand, false, witness, starts, crowd",
    ),
    "neli": (["--protocol", "neli"], "no case on neli: idel; there are crash-goneli"),
    "allcall": (
        ["--protocol", "allcall"],
        "no case on allcall: idel; there are takeover, yield, heal, freeze, restart, node, network, usual-",
    ),
}
MARKS = [(kind.BEGIN, kind.END) for kind in (on_kafka, on_neli, allcall)]
SECTIONS = [(section.begin, section.end) for section in (SQLITE, FILES, CROWDS, WITNESSES, IDLE_KAFKA)]


@pytest.mark.parametrize(("begin", "end"), [*MARKS, *SECTIONS])
def test_figures_go_between_the_marks(tmp_path: Path, begin: str, end: str) -> None:
    text = (ROOT / "docs" / "bench.md").read_text()
    assert text.count(begin) == text.count(end) == 1, "the document has a place for them"
    page = tmp_path / "page.md"
    page.write_text(text)
    put(page, "new", begin, end)
    before, after = text.split(begin)[0], text.split(end)[1]
    assert page.read_text() == f"{before}{begin}\nnew\n{end}{after}"


@pytest.mark.parametrize(("begin", "end"), MARKS)
@pytest.mark.parametrize("form", ["", "{begin}", "{end}{begin}", "{begin}{end}{end}"])
def test_a_page_without_both_marks_is_left_alone(tmp_path: Path, form: str, begin: str, end: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(form.format(begin=begin, end=end))
    with pytest.raises(ValueError, match="once each"):
        put(page, "new", begin, end)
    assert page.read_text() == form.format(begin=begin, end=end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_case_that_is_not_there(kind: str) -> None:
    arguments, says = KINDS[kind]
    ended = bench(*arguments, "--only", "idel")
    assert ended.returncode == 2
    assert says in ended.stderr


@pytest.mark.parametrize(
    ("now", "before", "says"),
    [
        ("1.0 / 4.0 / 9.0 ms (n=5)", "2.0 / 2.0 / 3.0 ms (n=30)", "2.00 x the recorded 2 ms"),
        (
            "0.83 / 1.11 / 1.14 M records/s (n=5)",
            "0.83 / 2.22 / 2.5 M records/s (n=5)",
            "0.50 x the recorded 2.22 M records/s",
        ),
        ("1.22 x (of medians)", "1.22 x (of medians)", "1.00 x the recorded 1.22 x (of medians)"),
        ("5 ms", None, "not recorded"),
        ("0", "0", "as recorded"),
        ("2", "0", "recorded: 0"),
        ("111 to 111 of 1,000 roles moved", "111 to 111 of 1,000 roles moved", "as recorded"),
        (
            "111 to 200 of 1,000 roles moved",
            "111 to 111 of 1,000 roles moved",
            "recorded: 111 to 111 of 1,000 roles moved",
        ),
        ("1 / 2 / 3 s (n=5)", "1 / 2 / 3 ms (n=5)", "recorded: 1 / 2 / 3 ms (n=5)"),
    ],
)
def test_a_row_beside_the_recorded_one(now: str, before: str | None, says: str) -> None:
    assert ratio(now, before) == says


@pytest.mark.parametrize(("begin", "end"), [(BEGIN, END), *MARKS])
def test_every_recorded_row_can_be_compared(begin: str, end: str) -> None:
    rows = recorded(ROOT / "docs" / "bench.md", begin, end)
    assert len(rows) > 10
    assert sum(median(figures) is not None for figures in rows.values()) > 8
    assert all(ratio(figures, figures).startswith(("1.00 x", "as recorded")) for figures in rows.values())


def test_a_run_stands_beside_the_recorded_one(tmp_path: Path) -> None:
    ended = bench("--quick", "--only", "append", "--compare")
    assert ended.returncode == 0, ended.stderr
    assert " x the recorded 0." in ended.stdout
    (tmp_path / "page.md").write_text("no marks")
    assert "once each" in bench("--only", "append", "--compare", str(tmp_path / "page.md")).stderr


def test_rows_of_a_run_are_put_where_they_belong_and_others_stay(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    heads = "| what | min / p50 / max | target | met |\n|---|---|---|---|"
    page.write_text(
        f"{FILES.begin}\n{heads}\n| another | 1 s |  |  |\n{FILES.end}\n{CROWDS.begin}\nnone\n{CROWDS.end}\n"
    )
    ended = bench("--ledger", "file", "--quick", "--only", "append", "--write", str(page))
    assert ended.returncode == 0, ended.stderr
    files, crowds = page.read_text().split(FILES.end)
    assert "\n| another | 1 s |  |  |\n| file append of a beat | " in files
    assert " | p50 <= 10 us | " in files
    assert crowds == f"\n{CROWDS.begin}\nnone\n{CROWDS.end}\n"


def test_what_has_a_table_of_its_own_does_not_run_unless_it_is_named() -> None:
    options = argparse.Namespace(
        protocol="claims", ledgers=None, nodes=None, rounds=50, quick=False, members=None, session=None, minutes=10
    )
    for ledger in ("sqlite", "file", "kafka"):
        options.ledger = ledger
        kind = kind_of(options)
        assert kind.apart.keys() & kind.usual.keys() == set()
        assert kind.more.keys() <= kind.apart.keys()
        assert {"witness", "starts", "crowd"} <= kind.more.keys()
