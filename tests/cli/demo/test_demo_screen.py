"""The demo's live part: what is struck through is a name, and nothing round it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from rich.text import Text

import pares
from pares.demo.processes import Actor
from pares.demo.screen import Frame, _members  # pyright: ignore[reportPrivateUsage]
from pares.view import Story


def test_only_the_names_of_those_that_are_gone_are_struck_through() -> None:
    ledger = pares.open("memory://screen")
    process = cast(Any, None)
    actors = {
        name: Actor(name, process, Path(), state=state)
        for name, state in (("ann", "killed"), ("bob", "gone"), ("cyd", "live"), ("dan", "killed"))
    }
    text = _members(Frame(0.0, 1.0, Story(ledger, "g"), actors, dict, None))
    assert isinstance(text, Text)
    struck = [text.plain[span.start : span.end] for span in text.spans if "strike" in str(span.style)]
    assert struck == ["ann", "bob", "dan"]
    assert text.plain == "members: ann killed  bob gone  cyd 0  dan killed  "
