"""What one task does for a batch: reads what is new in one partition of the log, folds it on, and writes the files.

It knows nothing of other partitions and nothing of the manifest. Done twice, it writes the same files.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

from pares.core.errors import CapabilityError
from pares.ledger.address import shown
from pares.ledger.base import Log
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import OtherState, freeze, thaw
from pares.spark.histories.columns import Row
from pares.spark.histories.files import Sheet, read_whole
from pares.spark.histories.manifest import Done, File
from pares.spark.host.room import room
from pares.spark.logs import open_to_read
from pares.spark.source.columns import fact_rows, record_rows
from pares.spark.source.ranges import Anomaly, look, lost, raise_for, replaced
from pares.spark.source.reads import fold_from

AGAIN: Final = "update again: a batch is in the history whole or not at all"
"""What to do when the disk was full."""
_WRITTEN: Final = ("records", "facts", "quarantine")


class Plan(Struct, frozen=True, kw_only=True):
    """What a task is to do: offsets `low` to before `high` of one partition."""

    root: str
    url: str
    client: dict[str, str]
    batch: int
    log: str
    partition: int
    low: int
    high: int
    world: str
    """The file with the state of the fold at `low`; empty: there is none, and the fold begins with this range."""
    since: int
    """The batch with which the fold began that is gone on with."""
    groups: list[str] | None
    claims_in: int
    error_ms: int


class Result(Struct, frozen=True):
    """What has been written."""

    partition: int
    done: Done
    files: dict[str, list[File]]


def perform(plan: Plan) -> Result:
    """Writes the files of the plan. Raises `LedgerRewound` if the URL leads to another log now, `LedgerGap` if the range is
    gone, and `CapabilityError` if the disk is full."""
    with room(plan.root, AGAIN):
        return _perform(plan)


def _perform(plan: Plan) -> Result:
    root = Path(plan.root)
    with open_to_read(plan.url, plan.client) as (log, _), ExitStack() as open_:
        seen = look(log, [plan.partition])
        if seen.identity != plan.log:
            raise_for(replaced(seen, plan.log, plan.partition, plan.low))
        bus = log.url.endswith(f"#{BUS_TOPIC}")
        fold, position = _begun(plan, log, bus=bus)
        sheets = {name: open_.enter_context(Sheet(root, name, plan.batch, plan.partition)) for name in _WRITTEN}
        # A fold that begins anew tells all of it: the audit stands on what was told since then. The records are there.
        told = plan.low if plan.world else position
        for entries, found in fold_from(log, fold, plan.partition, position, told, plan.high):
            counted = {fact.offset: fact.counted for _, facts in found for fact in facts if fact.kind == "record"}
            records = [
                {**row, "batch": plan.batch, "counted": counted.get(row["offset"])}
                for row in record_rows(plan.log, plan.partition, entries, bus=bus)
                if row["offset"] >= plan.low and (plan.groups is None or row.get("group") in (None, *plan.groups))
            ]
            refused = sheets["records"].add(records)
            facts = [
                {**row, "batch": plan.batch}
                for group, facts in found
                for row in fact_rows(plan.log, plan.partition, group, facts)
            ]
            sheets["quarantine"].add(refused + sheets["facts"].add(facts))
        _still_there(plan, log)
        files = {name: [file] for name, sheet in sheets.items() if (file := sheet.close()) is not None}
        return _ended(plan, root, fold, files)


def _still_there(plan: Plan, log: Log) -> None:
    """What was read is what was planned: the log is no other one since, and has not ended before. A reading that comes to the
    end of a log can't tell that by itself. Raises `LedgerRewound`."""
    seen = look(log, [plan.partition])
    if seen.identity != plan.log:
        raise_for(replaced(seen, plan.log, plan.partition, plan.low))
    if seen.places[plan.partition].end < plan.high:
        anomaly = lost(seen, plan.partition, plan.high)
        assert anomaly is not None
        raise_for(anomaly)


def _begun(plan: Plan, log: Log, *, bus: bool) -> tuple[Partition, int]:
    """The fold as it is at `low`, or where it begins, and its position."""
    if plan.world:
        try:
            (state,) = read_whole(Path(plan.root), plan.world).column("state").to_pylist()
            return thaw(state), plan.low
        except OtherState as error:
            if log.start(plan.partition) > 0:
                raise CapabilityError(
                    f"{plan.world} can't be gone on from ({error}), and the log's beginning is gone: go on with the version "
                    "of pares that has written it, or begin another history"
                ) from error
    origin = log.start(plan.partition)
    if origin > plan.low:
        raise_for(Anomaly.gap(shown(log.url), plan.partition, plan.low, origin))
    groups = None if plan.groups is None else frozenset(plan.groups)
    claims = plan.partition == plan.claims_in
    fold = Partition(groups, plan.partition, origin, claims=claims, error_ms=plan.error_ms, bus=bus)
    return fold, origin


def _ended(plan: Plan, root: Path, fold: Partition, files: dict[str, list[File]]) -> Result:
    where: Row = {"log": plan.log, "partition": plan.partition, "group": None, "batch": plan.batch}
    with Sheet(root, "worlds", plan.batch, plan.partition) as sheet:
        sheet.add([{**where, "offset": plan.high, "state": freeze(fold)}])
        world = sheet.close()
    assert world is not None
    with Sheet(root, "ends", plan.batch, plan.partition) as sheet:
        for group, facts in fold.finish():
            rows = fact_rows(plan.log, plan.partition, group, facts)
            sheet.add([{**row, "batch": plan.batch} for row in rows])
        ends = sheet.close()
    files = {**files, "worlds": [world], **({} if ends is None else {"ends": [ends]})}
    return Result(plan.partition, Done(plan.high, world.path, "" if ends is None else ends.path, plan.since), files)
