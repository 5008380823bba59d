"""What becomes of figures: tables, pictures, documents. Nothing is measured here."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import msgspec
import pytest
from bench.figures import BEGIN, END, put
from bench.part import first_run
from bench.peers.contenders import CONTENDERS
from bench.peers.measure import FULL, FULL_SLOW, QUICK, Result, Yes, answers, rounds_of
from bench.peers.page import HEAD, beliefs, cells, short, spread, table
from bench.peers.picture import picture, verdict
from bench.peers.store import load, save

SVG = "{http://www.w3.org/2000/svg}"


def kazoo() -> Result:
    listener = [Yes(3, 0.4), Yes(0, 0.0), Yes(1, 1.25)]
    alone = [Yes(9000, None)] * 3
    yes = {"listener": listener, "is_acquired": alone}
    return Result(CONTENDERS["kazoo-1"], [900.0, 1100.0, 1300.0], [3.0, 4.0], yes, 12.2, None, [0.2, 0.1, 0.3])


def ours() -> Result:
    return Result(
        CONTENDERS["pares-sqlite-1"], [850.0], [4.26], {"holds()": [Yes(0, 0.0)] * 3}, None, 6.04, [0.8, 0.7, 0.9]
    )


def test_spreads_say_least_median_most_and_how_many() -> None:
    assert spread([5.0, 1.0, 2.04]) == "1.0 / **2.0** / 5.0 (n=3)"
    assert spread([1000.4, 99.96, 10234.0]) == "100.0 / **1000** / 10234 (n=3)"
    assert spread([]) == "-"
    assert (short(0.25), short(99.94), short(100.0)) == ("0.2", "99.9", "100")


def test_beliefs_that_were_never_wrong_are_told_from_those_that_were_not_looked_at() -> None:
    assert beliefs([]) == "-"
    assert beliefs([Yes(0, 0.0)] * 4) == "never (n=4)"


def test_wrong_beliefs_are_counted_among_all_thaws() -> None:
    assert beliefs([Yes(3, 0.4), Yes(0, 0.0), Yes(1, 1.25)]) == "in 2 of 3, for 0.4 / **0.8** / 1.2 ms, 1 to 3 answers"
    assert beliefs([Yes(2, 7.0)]) == "in 1 of 1, for 7.0 / **7.0** / 7.0 ms, 2 answers"
    assert beliefs([Yes(1, 0.5)] * 2) == "in 2 of 2, for 0.5 / **0.5** / 0.5 ms, 1 answer"


def test_a_belief_without_end_is_not_given_a_length() -> None:
    assert beliefs([Yes(9000, None), Yes(2, 7.0), Yes(0, 0.0)]) == "in 2 of 3, 1 of them without end (looked for 1 s)"


def test_a_row_has_a_cell_for_each_heading() -> None:
    for result in (kazoo(), ours(), Result(CONTENDERS["group-6"])):
        assert len(cells(result)) == len(HEAD)


def test_the_table_holds_all_and_says_who_is_missing() -> None:
    lines = table([kazoo(), ours()], [("redis-py Lock, Redis", "no server\n| a | was found")]).splitlines()
    assert len(lines) == 5
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(HEAD) + 1}
    assert "900 / **1100** / 1300 (n=3)" in lines[2]
    assert "listener's flag: in 2 of 3" in lines[2]
    assert "`lock.is_acquired`: in 3 of 3, without end (looked for 1 s)" in lines[2]
    assert "12 segments" in lines[2]
    assert "`holds()`: never (n=3)" in lines[3]
    assert "6.0 records (a file, no server)" in lines[3]
    assert "0.80 %" in lines[3]
    assert "not measured: no server \\| a \\| was found" in lines[4]


def test_the_picture_has_a_line_for_each_and_marks_in_the_order_of_time() -> None:
    root = ET.fromstring(picture([kazoo(), ours(), Result(CONTENDERS["redis-1"])], "Who leads & when"))
    words = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert "Who leads & when" in words
    assert [word for word in words if word.endswith((", 1 s", ", 0.3 s"))] == [
        "kazoo Lock, ZooKeeper, 1 s",
        "pares, SQLite, 1 s",
        "redis-py Lock, Redis, 1 s",
    ]
    assert words.count("not measured") == 1
    assert "up to 1.2 ms (2 of 3)" in words
    assert "never (3 thaws)" in words
    marks = list(root.iter(f"{SVG}circle"))[2:]  # the first two explain the colours
    places = [float(mark.attrib["cx"]) for mark in marks]
    crash, planned, our_crash, our_planned = places
    assert planned < our_planned < our_crash < crash  # 3.5 < 4.26 < 850 < 1100 ms
    width = float(root.attrib["width"])
    assert all(0 < place < width for place in places)


def test_a_picture_of_nothing_is_a_picture() -> None:
    root = ET.fromstring(picture([Result(CONTENDERS["kazoo-1"])], "Nothing"))
    assert len(list(root.iter(f"{SVG}circle"))) == 2


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ([], "not measured"),
        ([Yes(0, 0.0)], "never (1 thaws)"),
        ([Yes(1, 0.0), Yes(0, 0.0)], "up to 0.0 ms (1 of 2)"),
        ([Yes(1, 3.0), Yes(5, None)], "without end"),
    ],
)
def test_verdicts(said: list[Yes], word: str) -> None:
    assert verdict(said)[0] == word


def test_only_what_was_asked_after_the_thaw_counts_and_only_up_to_the_first_no() -> None:
    said = [(1, True), (2, True), (10, True), (11, True), (12, False), (13, True)]
    assert first_run(said, 10) == (2, 11, True)
    assert first_run(said, 12) == (0, 0, True)
    assert first_run(said[:4], 10) == (2, 11, False)
    assert first_run([], 10) == (0, 0, False)


def test_a_yes_without_a_no_has_no_end() -> None:
    assert answers(0, 0, True) == Yes(0, 0.0)
    assert answers(2, 1_500_000, True) == Yes(2, 1.5)
    assert answers(2, 1_500_000, False) == Yes(2, None)


def test_figures_replace_those_between_the_marks_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put(file, "new\nones")
    put(file, "newer")
    assert file.read_text() == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["no marks", f"{BEGIN}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}{BEGIN}{END}"])
def test_a_document_without_marks_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(ValueError, match="must have the lines"):
        put(file, "new")
    assert file.read_text() == text


def test_what_was_measured_is_kept_whole(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    results = [kazoo(), ours(), Result(CONTENDERS["group-6"])]
    save(file, "a machine", results, [("x", "why")])
    assert load(file) == ("a machine", results, [("x", "why")])
    file.write_text('{"where": 1}')
    with pytest.raises(msgspec.ValidationError):
        load(file)


def test_the_command_writes_table_and_picture_from_what_was_kept(tmp_path: Path) -> None:
    kept, page = tmp_path / "kept.json", tmp_path / "page.md"
    save(kept, "A machine.", [kazoo(), ours()], [])
    page.write_text(f"{BEGIN}\n{END}\n")
    command = [sys.executable, "-m", "bench.peers", "--load", str(kept), "--write", str(page)]
    subprocess.run(command, cwd=Path(__file__).parents[2], check=True, timeout=60)
    text = page.read_text()
    assert "A machine." in text
    assert "](page.svg)" in text
    assert table([kazoo(), ours()]) in text
    ET.parse(tmp_path / "page.svg")


def test_slow_contenders_get_fewer_rounds() -> None:
    assert {key for key in CONTENDERS if rounds_of(CONTENDERS[key], quick=False) == FULL_SLOW} == {
        "kazoo-4",
        "group-6",
    }
    assert rounds_of(CONTENDERS["redis-1"], quick=False) == FULL
    assert rounds_of(CONTENDERS["kazoo-4"], quick=True) == QUICK
