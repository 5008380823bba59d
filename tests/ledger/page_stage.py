"""The ledger of docs/internals.md, taken from the page as it stands there, for the conformance suite."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

from ledger_stages import Stage, in_processes

from pares.ledger import Ledger

PAGE = Path(__file__).parents[2] / "docs" / "internals.md"


def code() -> str:
    """The page's ledger: its longest block of Python."""
    return max(re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL), key=len)


def registry() -> list[str]:
    """The lines that the page puts into the registry of a package's entry points."""
    (block,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return block.split('[project.entry-points."pares.ledgers"]\n')[1].splitlines()


def install(folder: Path) -> None:
    """Puts the page's package there, as pip would: its one file, and its one line of registry."""
    (line,) = registry()
    scheme, module, name = re.fullmatch(r'(\w+) = "(\w+):(\w+)"', line).groups()  # pyright: ignore[reportOptionalMemberAccess]
    facts = folder / f"{module}-1.dist-info"
    facts.mkdir(parents=True)
    (folder / f"{module}.py").write_text(code())
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1\n")
    (facts / "entry_points.txt").write_text(f"[pares.ledgers]\n{scheme} = {module}:{name}\n")


class PageStage(Stage):
    often = 30

    @property
    def path(self) -> Path:
        return self.folder / "box.db"

    @property
    def url(self) -> str:
        return f"shoebox://{self.path}?timeout=20"

    def impatient(self) -> Ledger:
        return self.open(timeout=0.2)

    @contextmanager
    def outage(self) -> Generator[None]:
        """A writer that sits in its transaction."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield

    def replace(self) -> None:
        """In a transaction: SQLite's connections remove files of theirs by name when they close, another database's too."""
        with closing(sqlite3.connect(self.path, timeout=20, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            other.execute("DELETE FROM entries")
            other.execute("UPDATE logs SET first = 0, next = 0, id = lower(hex(randomblob(8)))")
            other.execute("COMMIT")

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)
