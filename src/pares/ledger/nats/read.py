"""Reading a stream at any place, without a consumer: by direct requests, which any replica answers, or from its leader.

A replica that lags has less than the leader, never anything else: what it has is what was acknowledged, in order, from the
place asked for. So what it gives is good, and if it gives nothing the leader is asked, message by message.
"""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from pares.ledger.base import MAX_READ_BYTES, Entry
from pares.ledger.nats.epoch import Epoch, Lost, Nobody
from pares.ledger.nats.stream import ApiError, ask

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_BATCH: Final = 1000
_AT_ONCE: Final = 32
_NOT_FOUND: Final = 10037
QUIET: Final = "Pares-Quiet"
"""The header of a message that is not urgent (R21)."""


async def fetch(epoch: Epoch, stream: str, offset: int, end: int, max_records: int) -> list[Entry]:
    """Entries from `offset` on, which is below `end`; none only if there is nothing but holes up to `end`."""
    entries: list[Entry] = []
    size = 0
    while len(entries) < max_records and size < MAX_READ_BYTES and (not entries or entries[-1].offset < end - 1):
        place = entries[-1].offset + 1 if entries else offset
        more = await _direct(epoch, stream, place, min(max_records - len(entries), _BATCH), MAX_READ_BYTES - size)
        if not more:
            break
        entries += more
        size += sum(len(entry.payload) for entry in more)
    return entries or await _by_one(epoch, stream, offset, end, max_records)


async def news(epoch: Epoch, stream: str, offset: int, known: int) -> tuple[list[Entry], set[int]]:
    """Entries from `offset` on, up to below `known` at least, and the offsets of those that are not urgent. Nothing if that
    can't be said: only the stream's leader knows whether there is nothing."""
    quiet: set[int] = set()
    entries = await _direct(epoch, stream, offset, _BATCH, MAX_READ_BYTES, quiet)
    place = entries[-1].offset + 1 if entries else offset
    if len(entries) < _BATCH and place < known:
        entries += await _by_one(epoch, stream, place, known, _BATCH)  # the replica lags
    return entries, quiet


async def _direct(
    epoch: Epoch, stream: str, offset: int, count: int, size: int, quiet: set[int] | None = None
) -> list[Entry]:
    """What a replica has from `offset` on; nothing if the stream allows no such requests. `quiet` gets the offsets of what is
    not urgent."""
    entries: list[Entry] = []
    complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def hear(message: Msg) -> None:
        headers = message.headers or {}
        if complete.done():
            return
        if "Status" in headers and not message.data:
            complete.set_result(None)  # the end of the batch, or nothing there, or nobody who knows
            return
        entries.append(
            Entry(int(headers["Nats-Sequence"]) - 1, _milliseconds(headers["Nats-Time-Stamp"]), message.data)
        )
        if quiet is not None and QUIET in headers:
            quiet.add(entries[-1].offset)
        if len(entries) == count:
            complete.set_result(None)

    subject = f"$JS.API.DIRECT.GET.{stream}"
    inbox, failure = epoch.inbox(hear, subject)
    try:
        body = {"seq": offset + 1, "batch": count, "max_bytes": max(1, size)}
        await epoch.publish(subject, json.dumps(body).encode(), reply=inbox)
        await asyncio.wait({complete, failure}, return_when=asyncio.FIRST_COMPLETED)
        if not complete.done():
            await failure
    finally:
        epoch.forget(inbox)
        complete.cancel()
    return entries


async def _by_one(epoch: Epoch, stream: str, offset: int, end: int, max_records: int) -> list[Entry]:
    """What the stream's leader has, a few requests at a time."""
    entries: list[Entry] = []
    size, at = 0, offset
    while at < end and len(entries) < max_records and size < MAX_READ_BYTES:
        some = 1 if at == offset else min(_AT_ONCE, max(1, MAX_READ_BYTES * (at - offset) // max(1, 4 * size)))
        some = min(some, end - at, max_records - len(entries))
        found = await asyncio.gather(*(_one(epoch, stream, place) for place in range(at, at + some)))
        entries += [entry for entry in found if entry is not None]
        size += sum(len(entry.payload) for entry in found if entry is not None)
        at += some
    return entries


async def _one(epoch: Epoch, stream: str, offset: int) -> Entry | None:
    try:
        answer: Any = await ask(epoch, f"STREAM.MSG.GET.{stream}", {"seq": offset + 1})
    except ApiError as error:
        if error.number == _NOT_FOUND:
            return None
        raise Lost(str(error)) from None
    except Nobody:
        raise Lost(f"the stream {stream} has no leader now") from None
    message = answer["message"]
    return Entry(message["seq"] - 1, _milliseconds(message["time"]), b64decode(message.get("data", "")))


def _milliseconds(text: str) -> int:
    """A time as the server writes it: RFC 3339, UTC, up to nanoseconds."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    return round(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 1000 + int(f"{fraction}000"[:3])
