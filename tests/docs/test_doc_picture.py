"""docs/demo.svg shows what the demo's screen shows, in its words: `python -m bench.demo_picture` draws it anew."""

from __future__ import annotations

import html
import io
import re
from collections import defaultdict
from xml.etree import ElementTree

from doc_pages import ROOT
from rich.console import Console

import pares
from pares.demo.screen import Frame, draw
from pares.view import story_of

PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS = ("instrument", "leader", "token", "leads for", "last quote", "ago")


def lines() -> list[str]:
    """The picture's text, line by line."""
    rows: defaultdict[float, list[tuple[float, str]]] = defaultdict(list)
    for x, y, text in re.findall(r'<text[^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', PICTURE.read_text()):
        rows[float(y)].append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]


def test_it_shows_what_the_screen_shows() -> None:
    text = "\n".join(lines())
    story = ("is killed (SIGKILL)", "is frozen (SIGSTOP)", "was silent for its whole session", "the fence refused")
    for words in (*story, *COLUMNS):
        assert words in text, f"{words!r} is not in the picture: python -m bench.demo_picture"


def test_the_screen_has_these_columns() -> None:
    out, nobody = io.StringIO(), story_of(pares.open("memory://picture"), "nobody")
    Console(file=out, width=100).print(draw(Frame(0.0, 1.0, nobody, {}, dict, None), 20))
    for title in COLUMNS:
        assert title in out.getvalue(), (
            f"the demo's table has no column {title!r} any more: python -m bench.demo_picture"
        )


def test_it_needs_nothing_from_elsewhere() -> None:
    ElementTree.parse(PICTURE)
    assert re.findall(r"url\(['\"]?http|href=", PICTURE.read_text()) == []


def test_it_names_nobodys_machine() -> None:
    assert re.findall(r"/(?:home|tmp|root|work)/", PICTURE.read_text()) == []
