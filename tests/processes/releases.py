"""Other releases of pares, as they might be: copies of this one that write, and read, another version of the format.

The next version has something that this one knows nothing of: its beats carry a `mood`. What this release takes for a bad
field (in a record of a version that it reads), or for a kind that it does not know (in one of a later version), the next
one understands.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pares

_CHANGES = {
    "core/wire/records.py": [
        ("VERSION: Final = 2\n", "VERSION: Final = {writes}\n"),
        ("READS: Final = 2\n", "READS: Final = {reads}\n"),
        ("marks: tuple[tuple[str, Index, Int, Int], ...] | None = None\n\n\nclass Leave", "{mood}\n\n\nclass Leave"),
    ],
    "core/claims/outbox.py": [
        (
            'fields.setdefault("v", 2 if kind is records.Snapshot and world.in_force else min(self.writes, world.reads))\n',
            'fields.setdefault("v", 2 if kind is records.Snapshot and world.in_force else min(self.writes, world.reads))\n'
            '        if kind is records.Beat and fields["v"] >= 3:\n'
            '            fields["mood"] = "good"\n',
        ),
    ],
}
_MOOD = 'marks: tuple[tuple[str, Index, Int, Int], ...] | None = None\n    mood: Text = ""'


def make_release(folder: Path, name: str, *, writes: int, reads: int) -> Path:
    """A release whose records have version `writes`, and which reads up to `reads`. What to put into PYTHONPATH."""
    place = folder / name
    shutil.copytree(Path(pares.__file__).parent, place / "pares", ignore=shutil.ignore_patterns("__pycache__"))
    for path, changes in _CHANGES.items():
        file = place / "pares" / path
        text = file.read_text()
        for before, after in changes:
            assert text.count(before) == 1, f"{path} has changed: say anew how the next version differs"
            text = text.replace(before, after.replace("{mood}", _MOOD).replace("{writes}", str(writes)))
            text = text.replace("{reads}", str(reads))
        file.write_text(text)
    return place
