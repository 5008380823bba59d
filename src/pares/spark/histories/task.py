"""What one task does for a batch: reads what is new in one partition of the log, folds it on, and writes the files.

It knows nothing of other partitions and nothing of the manifest. Done twice, it writes the same files.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError
from pares.ledger.address import shown
from pares.ledger.base import Log
from pares.ledger.bus import BUS_TOPIC
from pares.spark.facts.folding import Partition
from pares.spark.facts.frozen import OtherState, freeze, thaw
from pares.spark.histories.columns import Row
from pares.spark.histories.files import Sheet, read_whole
from pares.spark.histories.manifest import Done, File
from pares.spark.histories.pieces import TABLES
from pares.spark.histories.plans import Plan, Result
from pares.spark.histories.portions import portion
from pares.spark.host.room import room
from pares.spark.logs import open_to_read
from pares.spark.source.columns import fact_rows
from pares.spark.source.ranges import Anomaly, Look, look, lost, raise_for, replaced
from pares.spark.source.reads import fold_from

AGAIN: Final = "update again: a batch is in the history whole or not at all"
"""What to do when the disk was full."""


def perform(plan: Plan) -> Result:
    """Writes the files of the plan. Raises `LedgerRewound` if the URL leads to another log now, `LedgerGap` if the range is
    gone, and `CapabilityError` if the disk is full."""
    with room(plan.root, AGAIN):
        return _perform(plan)


def _perform(plan: Plan) -> Result:
    root = Path(plan.root)
    with open_to_read(plan.url, plan.client) as (log, _), ExitStack() as open_:
        same_log(plan, log)
        bus = log.url.endswith(f"#{BUS_TOPIC}")
        fold, position = begun(plan, log, bus=bus)
        sheets = {name: open_.enter_context(Sheet(root, name, plan.batch, plan.partition)) for name in TABLES}
        # A fold that begins anew tells all of it: the audit stands on what was told since then. The records are there.
        told = plan.low if plan.world else position
        for entries, shares in fold_from(log, fold, plan.partition, position, told, plan.high):
            rows = portion(plan, entries, shares, bus=bus)
            sheets["records"].append(rows.records)
            sheets["facts"].append(rows.facts)
            sheets["quarantine"].add(rows.refused)
        still_there(plan, log, plan.high)
        files = {name: [file] for name, sheet in sheets.items() if (file := sheet.close()) is not None}
        return ended(plan, fold, files)


def still_there(plan: Plan, log: Log, high: int) -> None:
    """What was read up to `high` is what was planned: the log is no other one since, and has not ended before. A reading that
    comes to the end of a log can't tell that by itself. Raises `LedgerRewound`."""
    seen = same_log(plan, log)
    if seen.places[plan.partition].end < high:
        anomaly = lost(seen, plan.partition, high)
        assert anomaly is not None
        raise_for(anomaly)


def same_log(plan: Plan, log: Log) -> Look:
    """The log now. Raises `LedgerRewound` if it is another one than was planned for."""
    seen = look(log, [plan.partition])
    if seen.identity != plan.log:
        raise_for(replaced(seen, plan.log, plan.partition, plan.low))
    return seen


def begun(plan: Plan, log: Log, *, bus: bool) -> tuple[Partition, int]:
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


def ended(plan: Plan, fold: Partition, files: dict[str, list[File]]) -> Result:
    """Writes where the fold stands, and what is said there; `files`: what was written on the way."""
    root = Path(plan.root)
    where: Row = {"log": plan.log, "partition": plan.partition, "group": None, "batch": plan.batch}
    fold.tidy()
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
