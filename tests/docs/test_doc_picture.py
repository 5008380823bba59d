"""docs/demo.svg shows what the demo's screen shows, in its words: `python -m bench.demo_picture` draws it anew."""

from __future__ import annotations

import html
import re
from collections import defaultdict
from xml.etree import ElementTree

from doc_pages import ROOT

from pares.demo.summary import CAUSES

PICTURE = ROOT / "docs" / "demo.svg"


def lines() -> list[str]:
    """The picture's text, line by line."""
    rows: defaultdict[float, list[tuple[float, str]]] = defaultdict(list)
    for x, y, text in re.findall(r'<text[^>]*x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', PICTURE.read_text()):
        rows[float(y)].append((float(x), html.unescape(text).replace("\xa0", " ")))
    return ["".join(text for _, text in sorted(rows[y])) for y in sorted(rows)]


def test_it_shows_the_story_and_its_end() -> None:
    text = "\n".join(lines())
    for words in (
        "is killed (SIGKILL)",
        "is frozen (SIGSTOP)",
        "was silent for its whole session",
        "the fence refused",
        CAUSES["crash"],
        CAUSES["freeze"],
        "zombie writes:",
        "promises broken:",
    ):
        assert words in text, f"{words!r} is not in the picture: python -m bench.demo_picture"
    assert re.search(r"promises broken: +none of \d+", text)
    assert re.search(r"zombie writes: +\d+ refused by the fence, 0 landed", text)
    assert re.search(r"duplicates: +none", text)


def test_it_needs_nothing_from_elsewhere() -> None:
    ElementTree.parse(PICTURE)
    assert re.findall(r"url\(['\"]?http|href=", PICTURE.read_text()) == []


def test_it_names_nobodys_machine() -> None:
    assert re.findall(r"/(?:home|tmp|root|work)/", PICTURE.read_text()) == []
