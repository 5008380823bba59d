"""The rules of `DeltaSink`, each broken on purpose: see `sink_mutants`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from deltalake import DeltaTable

from pares.core.errors import Stale
from pares.fence.base import Held
from pares.sim.mutant import Patch
from pares.spark.sinks import delta
from pares.spark.sinks.base import Incomplete, Seat, Staged
from pares.spark.sinks.delta import DeltaSink
from pares.spark.sinks.delta_log import DeltaLog

# pyright: reportPrivateUsage=false


def lower_token_commits() -> list[Patch]:
    now = DeltaSink._now

    def lowered(self: DeltaSink, held: Held, *, blind: bool = False) -> Any:
        found = now(self, held, blind=blind)
        return found._replace(token=min(found.token, held.token))

    return [(DeltaSink, "_now", lowered)]


def commits_behind_whatever_there_is() -> list[Patch]:
    """As delta-rs does by itself with appends."""
    commit = DeltaLog.commit

    def rebased(self: DeltaLog, table: DeltaTable, *given: Any) -> bool:
        return commit(self, DeltaTable(str(self.folder)), *given)

    return [(DeltaLog, "commit", rebased)]


def opened_without_a_commit() -> list[Patch]:
    def only_looks(self: DeltaSink, held: Seat) -> None:
        now = self._now(held)
        if now.token > held.token:
            raise Stale(held.token, now.token)

    return [(DeltaSink, "open", only_looks)]


def fewer_rows_will_do() -> list[Patch]:
    adds = DeltaSink._adds

    def uncounted(self: DeltaSink, staged: Staged, files: list[Path]) -> Any:
        try:
            return adds(self, staged, files)
        except Incomplete as short:
            return adds(self, staged._replace(rows=int(str(short).split()[0])), files)

    return [(DeltaSink, "_adds", uncounted)]


def noted_beside_the_commit() -> list[Patch]:
    """Where to go on stands in one file of the seat's, which is written after the commit."""

    def commits(self: DeltaSink, held: Held, change: Any, *, blind: bool = False) -> bool:
        file = self.folder / delta.NOTES / self._place(held) / "note.json"
        while True:
            table = self._log.snapshot()
            token = self._numbers(table, held)[0]
            token = -1 if token is None else token
            if token > held.token:
                raise Stale(held.token, token)
            note = msgspec.json.decode(file.read_bytes(), type=delta.Note) if file.is_file() else None
            wanted = change(delta._Now(table, token, 0, note))
            if wanted is None:
                return False
            new = delta.Note(self.group, held.role, held.seat, held.token, wanted.last, wanted.new)
            content = msgspec.json.encode(new)
            numbers = {self._id(held): held.token, f"{self._id(held)}/note": 0}
            if self._log.commit(table, [*wanted.adds], numbers, content.decode(), wanted.fields):
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
                return True

    def last(self: DeltaSink, held: Seat) -> Any:
        file = self.folder / delta.NOTES / self._place(held) / "note.json"
        return msgspec.json.decode(file.read_bytes(), type=delta.Note).last if file.is_file() else None

    def now(self: DeltaSink, held: Held, *, blind: bool = False) -> Any:
        table = self._log.snapshot()
        token = self._numbers(table, held)[0]
        return delta._Now(table, -1 if token is None else token, None, None)

    return [(DeltaSink, "_commit", commits), (DeltaSink, "last", last), (DeltaSink, "_now", now)]
