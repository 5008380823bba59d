"""What is to be done for a batch in one partition of a log, and what was done. Both travel to Spark's tasks and back."""

from __future__ import annotations

from msgspec import Struct

from pares.spark.histories.manifest import Done, File


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
