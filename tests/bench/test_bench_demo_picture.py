"""What `python -m bench.demo_picture` keeps of a run, and what it makes of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

from bench.demo_picture import AFTER_THAW, Recorder, drawn

import pares
from demo_tools import PLAYED
from pares.demo.screen import Frame
from pares.view import Move, story_of


def move(role: str, before: str, to: str, cause: str) -> Move:
    return Move(1, 0, (role, 0), f"{before}~1", f"{to}~1", 7, cause, "", 2)


def played() -> Recorder:
    recorder = Recorder()
    recorder.fault(1.5, "bob is killed (SIGKILL)")
    recorder.move(1.6, move("KO", "bob", "ann", "died"))
    recorder.move(1.6, move("BHP", "cyd", "ann", "handover"))
    recorder.fault(3.0, "fay is added")
    recorder.fault(4.0, "ann is killed (SIGKILL)")
    recorder.fault(5.0, "dan is frozen (SIGSTOP) between its look at the term and its write")
    recorder.move(6.0, move("SAP", "dan", "cyd", "silent"))
    recorder.fault(7.6, "dan is thawed (SIGCONT); it does not know what it has missed")
    recorder.fault(7.7, "SAP    the fence refused dan's write: token …1 is below …2")
    story = story_of(pares.open("memory://bench-picture"), "nobody")
    for at in (7.8, 7.7 + 2 * AFTER_THAW):
        recorder.show(Frame(at, 25.0, story, {}, dict, None))
    recorder.fault(9.0, "cyd is frozen (SIGSTOP) between its look at the term and its write")
    return recorder


def test_it_keeps_one_kill_and_one_freeze_with_what_followed() -> None:
    recorder = played()
    text = "\n".join(recorder.lines)
    assert [line.split()[0] for line in recorder.lines] == ["1.50", "1.60", "[dim]…[/]", "5.00", "6.00", "7.60", "7.70"]
    assert "KO" in text
    assert "SAP" in text
    for other in ("BHP", "fay", "ann is killed", "cyd is frozen"):
        assert other not in text
    assert recorder.table is not None


def test_it_draws_the_story_the_table_and_the_end(tmp_path: Path) -> None:
    recorder = played()
    assert recorder.table is not None
    summary = replace(PLAYED, report=tmp_path / "report.html")
    svg = drawn(recorder.lines, recorder.table, summary)
    ElementTree.fromstring(svg)
    text = svg.replace("&#160;", " ")
    for words in ("bob is killed", "the fence refused", "instrument", "zombie writes:", "none"):
        assert words in text
    assert "report.html" not in text
    assert re.findall(r"https?://(?!www\.w3\.org)", re.sub(r"<!--.*?-->", "", svg)) == []
    (tmp_path / "demo.svg").write_text(svg)
