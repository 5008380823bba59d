"""One line about a record in the log, which a person can read."""

from __future__ import annotations

from pares.core.wire.changes import Change, MemberLeft, PauseChanged, RoleChanged, SeatChanged
from pares.core.wire.records import (
    AnyRecord,
    Ask,
    Claim,
    Forget,
    Obituary,
    Pause,
    Release,
    Resume,
    Rewind,
    Role,
    Snapshot,
    Transfer,
    Unknown,
)

DECISIONS = Claim | Release | Transfer | Obituary | Forget | Resume


def line(offset: int, record: AnyRecord | Unknown | None, counted: bool, changes: list[Change]) -> str:
    if record is None:
        return f"#{offset} garbage"
    kind = record.k if isinstance(record, Unknown) else str(record.__struct_config__.tag)
    seat = getattr(record, "seat", None)
    place = "" if seat is None else f" {seat[0]}/{seat[1]}"
    said = details(record)
    return f"#{offset} {record.m} {kind}{place}{said and f' {said}'}{_outcome(record, counted, changes)}"


def details(record: AnyRecord | Unknown) -> str:
    """What it says besides its kind and its seat."""
    if isinstance(record, Claim):
        over = "" if record.over is None else f"over {record.over[0]} as of #{record.over[1]}"
        return f"{over} to free it".strip() if record.free else over
    if isinstance(record, Release | Transfer):
        to = f"to {record.to} " if isinstance(record, Transfer) else ""
        return f"{to}({record.why})"
    if isinstance(record, Obituary | Forget):
        return f"of {record.of}"
    if isinstance(record, Role):
        return f"{record.name} is removed" if record.removed else f"{record.name}, seats: {record.seats}"
    if isinstance(record, Pause):
        return f"{record.scope or 'the group'} for {record.ms / 1000:g} s"
    if isinstance(record, Resume):
        return f"of the pause at #{record.pause}"
    if isinstance(record, Snapshot):
        return f"of the world up to #{record.upto}"
    if isinstance(record, Ask):
        return f"drain {record.drain}" if record.drain else f"to {record.to or 'anybody else'}"
    if isinstance(record, Rewind):
        return ", ".join(f"{role}/{index} to {mark}" for role, index, mark in record.marks)
    return ""


def _outcome(record: AnyRecord | Unknown, counted: bool, changes: list[Change]) -> str:
    if not counted:
        return " (does not count)"
    found: list[str] = []
    for change in changes:
        if type(change) is SeatChanged:
            now = "is free" if change.holder is None else f"is held by {change.holder} (token {change.token})"
            found.append(f"{change.seat[0]}/{change.seat[1]} {now}")
        elif type(change) is MemberLeft:
            found.append(f"{change.member} is gone ({change.cause})")
        elif type(change) is RoleChanged:
            found.append(f"{change.role} is {change.what}")
        elif type(change) is PauseChanged and not change.on:
            found.append("the pause is over")
    if found:
        return " -> " + ", ".join(found)
    return " -> refused" if isinstance(record, DECISIONS) else ""
