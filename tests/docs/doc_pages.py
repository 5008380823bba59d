"""The pages of the documentation, and what stands in them: snippets, commands, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("**/*.md")])

_FENCE = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Snippet:
    """A block between fences. `note` is a comment right above it, which readers don't see: what the block needs to run."""

    page: Path
    line: int
    language: str
    note: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.stem}-{self.line}"


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text()
    return [
        Snippet(
            page, text.count("\n", 0, found.start("text")) + 1, found["language"], found["note"] or "", found["text"]
        )
        for found in _FENCE.finditer(text)
    ]


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """What `#...` may name in a page: its headings, as GitHub writes them (a repeated one gets a number)."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return names


def links(page: Path) -> list[str]:
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))


def commands(page: Path) -> Iterator[str]:
    """Each `pares ...`, `make ...` and `python -m ...` that a page tells its reader to type, without what a comment adds."""
    for snippet in snippets(page):
        if snippet.language in ("", "sh", "console"):
            for line in snippet.text.splitlines():
                yield from _of_line(re.split(r"(?:^|\s)#\s", line)[0])
    for code in _INLINE.findall(prose(page)):
        yield from _of_line(code)


def _of_line(line: str) -> Iterator[str]:
    for found in re.finditer(r"(?:^|\$\(|[;&|] *)\s*((?:pares|make|python -m) [^;&|]*)", line):
        text = found[1]
        # of `URL=$(pares dev kafka up)` the part in the parentheses
        yield (text.partition(")")[0] if "(" not in text else text).strip()
