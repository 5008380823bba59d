"""A record of the claims protocol as it stands in the log, as a row: what the second opinion and the anomalies are
worked out from.

Nothing here is folded. `counted` is the one word of the kernel in it: whether its fold counted the record (None: not known).

    cause   the record's kind                      n, base, due_ms   its envelope
    role, seat, token   of claim, release, transfer, did, take and done; role also of `role` and of a pause's scope
    other   whom it names: the holder that a claim supersedes, a transfer's receiver, the dead, the drained
    ref     the offset that it names: of the superseded holder's last record, of a pause, of what a genesis comes over
    why     a did's `what`; `unready` of a join or a `ready` that says so; `removed` of a role
    clock_ms a did's `at`; a pause's length; hash: of the bytes, so that a copy is told from another record of that number
"""

from __future__ import annotations

import zlib
from typing import Any

from pares.core.wire import records as r
from pares.spark.facts.base import Fact

UNREADY, REMOVED = "unready", "removed"


def raw(offset: int, at_ms: int, payload: bytes, record: r.AnyRecord | r.Unknown, counted: bool | None) -> Fact:
    """The row of one record."""
    kind = record.k if isinstance(record, r.Unknown) else str(type(record).__struct_config__.tag)
    return Fact(
        "record",
        offset,
        at_ms,
        member=record.m,
        cause=kind,
        n=record.n,
        base=record.b,
        due_ms=record.s,
        counted=counted,
        hash=zlib.crc32(payload),
        bytes=len(payload),
        **said(record),
    )


def said(record: r.AnyRecord | r.Unknown) -> dict[str, Any]:
    """What a record of a known kind says beside its envelope, by the fields of `Fact`."""
    match record:
        case r.Beat():
            return {}  # first, as most are
        case r.Claim(seat=(role, seat), over=over):
            holder, last = over or (None, None)
            return {"role": role, "seat": seat, "other": holder, "ref": last, "why": "free" if record.free else None}
        case r.Did(seat=(role, seat)):
            return {"role": role, "seat": seat, "token": record.token, "why": record.what, "clock_ms": record.at}
        case r.Transfer(seat=(role, seat)):
            return {"role": role, "seat": seat, "token": record.token, "other": record.to}
        case r.Release(seat=(role, seat)) | r.Take(seat=(role, seat)) | r.Done(seat=(role, seat)):
            return {"role": role, "seat": seat, "token": record.token}
        case r.Obituary():
            return {"other": record.of}
        case r.Forget():
            return {"other": record.of, "ref": record.over}
        case r.Ask():
            return {"other": record.drain}
        case r.Genesis():
            return {"ref": record.over, "token": record.base}
        case r.Pause():
            return {"role": record.scope, "clock_ms": record.ms}
        case r.Resume():
            return {"ref": record.pause}
        case r.Role():
            return {"role": record.name, "why": REMOVED if record.removed else None}
        case r.Join():
            return {
                "name": record.name,
                "session_ms": record.session,
                "why": UNREADY if record.ready is False else None,
            }
        case r.Ready():
            return {"why": None if record.ready else UNREADY}
        case _:
            return {}
