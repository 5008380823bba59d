"""What an audit found, how it is written down, and what of an audit of all groups is of each one.

The rows of all tables are gone through once, however many groups there are. [with a pass over every table for each group, a
thousand groups cost a thousand times as much as one, for each table]
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pares.spark import verdict
from pares.spark.rules.base import Row
from pares.spark.session import needing
from pares.spark.verdict import Promise

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from pares.spark.page.pictures import Picture


@dataclass(frozen=True)
class AuditResult:
    """What an audit found. `tables` are Arrow tables of at most `tables.ROWS` rows; `frames` has all rows, in Spark."""

    group: str
    ledger: str
    tables: Mapping[str, pa.Table]
    """violations, anomalies, terms, overlaps, gaps, takeovers, moves, balance, bad_records, faults; with writes also
    sink_findings: see `schema.TABLES`."""
    summary: Mapping[str, Any]
    promises: list[Promise]
    frames: Mapping[str, DataFrame] = field(default_factory=dict[str, "DataFrame"], repr=False, compare=False)
    """The same, whole; none in a result that was put together without Spark."""
    picture: Picture | None = None
    """What the report draws, of all rows; of an audit of one group."""
    engine: Literal["spark", "python"] = "spark"
    """By what the rules were answered: by queries, or in plain Python, as in a short log they are by default."""
    _rows: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]], repr=False, compare=False)

    @property
    def cut_off(self) -> str | None:
        """What is to be said of a log whose beginning is deleted; None if all of it is there."""
        start = self.summary["log_from"]
        if start == 0:
            return None
        return (
            f"The log begins at offset {start}: what stood before it was deleted, by retention or a trim, and is not audited. "
            f"The group's history is known from offset {self.summary['records_from']} on; older terms have no beginning."
        )

    @property
    def exit_code(self) -> int:
        """3 if a promise was broken, else 0."""
        return self.code()

    def code(self, fail_on: Sequence[str] = ()) -> int:
        """3 if a promise was broken, or has one of the verdicts `fail_on` (of `verdict.FAILS`), else 0."""
        verdict.check_failing(fail_on)
        return 3 if any(promise.verdict in ("broken", *fail_on) for promise in self.promises) else 0

    def rows(self, table: str) -> list[Row]:
        """The rows of a table as dictionaries; at most as many as `tables` has."""
        if table not in self._rows:
            self._rows[table] = self.tables[table].to_pylist()
        return self._rows[table]

    def write(self, out: str | Path, form: Literal["parquet", "jsonl"] = "parquet") -> list[Path]:
        """Writes each table to a file of its own in the folder `out`, and `summary.json`; returns the files.

        All rows are written, also those that `tables` leaves out: more than it has become a folder of that name. A file is
        there whole or not at all. Files of an earlier audit are replaced.
        """
        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        for name, table in self.tables.items():
            draft, place = folder / f".{name}.draft", folder / f"{name}.{form}"
            if self.cut(name):
                form_ = "json" if form == "jsonl" else form
                self.frames[name].write.mode("overwrite").format(form_).save(str(draft.resolve()))
            elif form == "parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, draft)
            else:
                draft.write_text("".join(f"{json.dumps(row, default=_text)}\n" for row in table.to_pylist()))
            if place.is_dir() or draft.is_dir():
                _remove(place)
            os.replace(draft, place)
            written.append(place)
        draft, place = folder / ".summary.draft", folder / "summary.json"
        draft.write_text(json.dumps(self.to_json(), indent=2, default=_text) + "\n")
        os.replace(draft, place)
        return [*written, place]

    def cut(self, table: str) -> bool:
        """Whether `tables` has not all rows of this one."""
        from pares.spark.tables import ROWS

        return table in self.frames and self.tables[table].num_rows >= ROWS

    def to_json(self) -> dict[str, Any]:
        """The summary and the promises, for `--json`."""
        return {
            "group": self.group,
            "ledger": self.ledger,
            "summary": dict(self.summary),
            "cut_off": self.cut_off,
            "promises": [promise._asdict() for promise in self.promises],
            "exit_code": self.exit_code,
            "engine": self.engine,
        }


class Share:
    """The rows of one table by group. Rows of no group (`g` NULL) are every group's; a table without `g` is, too."""

    def __init__(self, table: pa.Table) -> None:
        self._table: Any = table
        self._places: dict[str | None, list[int]] = {}
        if "g" in table.column_names:
            for place, group in enumerate(table.column("g").to_pylist()):
                self._places.setdefault(group, []).append(place)
            self._table = table.drop_columns(["g"])
        # One for all groups that have no rows of their own, and not a copy for each.
        self._shared = self._table if self._places.keys() <= {None} else self._taken(self._places.get(None, []))

    def of(self, group: str) -> pa.Table:
        """The group's rows, in the table's order, without `g`."""
        own = self._places.get(group)
        if own is None:
            return self._shared
        strays = self._places.get(None, [])
        return self._taken(sorted([*own, *strays]) if strays else own)

    def _taken(self, places: list[int]) -> Any:
        import pyarrow as pa

        return self._table.take(pa.array(places, pa.int64()))


class Whole(Mapping[str, "DataFrame"]):
    """All rows of the group, by table, in Spark. A frame is made when it is asked for. [to plan a dozen frames for each of a
    thousand groups takes minutes, and few are looked at]"""

    def __init__(self, frames: Mapping[str, DataFrame], group: str, needed: object = None) -> None:
        """`needed`: what the frames are made of."""
        self._frames, self._group, self._needed = frames, group, needed

    def __getitem__(self, name: str) -> DataFrame:
        frame = self._frames[name]
        own = frame.where(f"g IS NULL OR g = {quoted(self._group)}").drop("g") if "g" in frame.columns else frame
        return needing(own, self._needed)

    def __contains__(self, name: object) -> bool:
        return name in self._frames

    def __iter__(self) -> Iterator[str]:
        return iter(self._frames)

    def __len__(self) -> int:
        return len(self._frames)


def quoted(text: str) -> str:
    """As a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _remove(place: Path) -> None:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        with contextlib.suppress(FileNotFoundError):
            place.unlink()


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
