"""The table of `python -m bench --ledgers`: a row for each ledger, in one place of one document."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.cases import Row
from bench.figures import put, tables
from bench.ledgers.cases import BEGIN, END, LEDGERS
from bench.ledgers.servers import clusters
from bench.ledgers.table import COLUMNS, FACTS, table
from bench_run import ROOT, bench

PAGE = ROOT / "docs" / "choosing.md"


def test_each_ledger_is_measured() -> None:
    assert {*LEDGERS} == {"file", "sqlite", "kinesis", *clusters()}
    assert {*FACTS} == {*LEDGERS}


def test_figures_go_between_the_marks_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    put(page, "new", BEGIN, END)
    before, after = PAGE.read_text().split(BEGIN)[0], PAGE.read_text().split(END)[1]
    assert page.read_text() == f"{before}{BEGIN}\nnew\n{END}{after}"


def test_each_ledger_has_a_row_of_medians() -> None:
    rows = [
        Row("redis: append", "1.0 / 2.5 / 3.0 ms (n=3)"),
        Row("postgres: handover", "1.0 / 9.0 / 9.5 ms (n=3)", "p50 <= 4 ms", False),
        Row("postgres: idle member, 3 members, session 1 s", "0.1 / 0.2 / 0.3 % of a core (n=3)"),
        Row("kinesis: crash takeover by silence, session 1 s (session 10 s)", "8000 / 9000 / 9900 ms (n=3)"),
        Row("kinesis: idle member, 3 members (session 10 s)", "0.1 / 0.2 / 0.3 % of a core (n=3)"),
        Row("advisory lock: handover", "1.0 / 2.0 / 3.0 ms (n=3)"),
    ]
    heads, _, postgres, redis, kinesis, _, beside = table(rows).splitlines()
    at = {head.strip(): number for number, head in enumerate(heads.split("|"))}
    assert {*COLUMNS.values()} < {*at}

    def cell(row: str, head: str) -> str:
        return row.split("|")[at[head]].strip()

    assert cell(redis, "append") == "2.5 ms"
    assert cell(redis, "handover") == ""
    assert "tokens rise" in cell(redis, "a failover may take")
    assert cell(postgres, "handover") == "9 ms (**missed**)"
    assert cell(postgres, "idle member") == "0.2 %"
    assert cell(kinesis, "crash, silence, session 1 s") == "9000 ms (session 10 s)"
    assert cell(kinesis, "idle member") == "0.2 % (session 10 s)"
    assert beside == "- advisory lock: handover: 1.0 / 2.0 / 3.0 ms (n=3)"


def test_what_was_not_measured_again_is_kept() -> None:
    """And said to be of an earlier run; what a ledger gives and costs is as it is now."""
    before = table(
        [
            Row("postgres: append", "1.0 / 2.0 / 3.0 ms (n=3)"),
            Row("advisory lock: handover", "1.0 / 2.0 / 3.0 ms (n=3)"),
            Row("pulsar: append", "1.0 / 7.5 / 9.0 ms (n=3)"),
            Row("kinesis: handover (session 10 s)", "1.0 / 8.0 / 9.0 ms (n=3)"),
        ]
    ).replace("often there", "told before")
    after = table(
        [Row("pulsar: append", "1.0 / 8.5 / 9.0 ms (n=3)"), Row("file: append", "0.1 / 0.2 / 0.3 ms (n=3)")], before
    )
    [rows] = tables(after)
    assert [row["ledger"] for row in rows] == ["file", "postgres", "pulsar", "kinesis"]
    assert [row["append"] for row in rows] == ["0.2 ms", "2 ms", "8.5 ms", ""]
    assert rows[3]["handover"] == "8 ms (session 10 s)"
    assert "told before" not in after
    assert after.splitlines()[-2:] == [
        "- advisory lock: handover: 1.0 / 2.0 / 3.0 ms (n=3)",
        "- of earlier runs: postgres, kinesis",
    ]
    again = table([Row("postgres: append", "1.0 / 3.0 / 3.0 ms (n=3)")], after)
    assert again.splitlines()[-1] == "- of earlier runs: file, pulsar, kinesis"


@pytest.mark.processes
def test_a_ledger_is_measured_by_one_command(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    earlier = table([Row("redis: append", "1.0 / 2.5 / 3.0 ms (n=3)")])
    page.write_text(f"{BEGIN}\n{earlier}\n{END}\n")
    done = bench("--ledgers", "file", "--quick", "--write", str(page))
    assert done.returncode == 0, done.stderr
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| file")]
    assert all(cell.strip() for cell in row.strip("|").split("|"))
    assert "| redis | " in page.read_text(), "what was not measured stays"
