"""A power cut, simulated: of each file a beginning is left, at least what was synced, and of each folder those names."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from pares.ledger.file import appending, folder


class Disk:
    """Knows what of the files in a folder would survive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lengths: dict[int, int] = {}
        self.names: dict[str, set[str]] = {}
        self._sync, self._sync_folder = os.fsync, folder.sync_folder
        for module in (appending, folder):
            monkeypatch.setattr(module, "sync_folder", self.sync_folder)
        monkeypatch.setattr(appending, "_sync_file", self.sync_file)

    def sync_file(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        self.lengths[found.st_ino] = found.st_size
        self._sync(descriptor)

    def sync_folder(self, path: str) -> None:
        self.names[path] = {*os.listdir(path)}
        self._sync_folder(path)

    def cut(self, path: Path, to: Path, rest: random.Random) -> None:
        """What is found in `to` when the power is back. Names that were not synced may be there or not."""
        names = self.names.get(str(path), set()) if path.is_dir() else set()
        to.mkdir()
        for each in sorted(path.iterdir()):
            if each.name not in names and each.suffix in (".log", ".made") and rest.random() < 0.5:
                continue
            if each.is_dir():
                self.cut(each, to / each.name, rest)
            elif each.is_fifo():
                continue
            elif each.suffix == ".log":
                whole, least = each.read_bytes(), self.lengths.get(each.stat().st_ino, 0)
                left = rest.choice([least, len(whole), rest.randint(least, len(whole))])
                (to / each.name).write_bytes(whole[:left])
                self.lengths[(to / each.name).stat().st_ino] = left
            else:
                shutil.copy(each, to / each.name)
        self.names[str(to)] = {*os.listdir(to)}
