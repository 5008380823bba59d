"""Appending to JetStream: fenced by the place of one's own last message, and many at once or not at all.

**No stale records.** Each ledger publishes on a subject of its own, and says with each append after which of its own messages
it comes (`Nats-Expected-Last-Subject-Sequence`). The stream's leader refuses what does not come next. So an append that got no
answer may land until the next append of this ledger to that partition is acknowledged, and never after: by then its place is
taken. Others are not in the way: they have subjects of their own. After such an append the next one begins by asking the
stream's leader, and sends nothing before it has answered; so there is never more than one of them a partition and ledger.

The same message tells what became of it: if the next append is refused because one's own last message is another one than
expected, the append of unknown outcome has landed, and the next one is sent again, behind it.

**All or nothing.** An append of many is an atomic batch. A stream takes at most 1000 messages in one: more go in several, in
order, and so do all where the stream has no atomic batches. What fails then may have been done in part.

A payload that leaves no room for that header (within 512 bytes of the server's `max_payload`, which is 1 MiB in a stock server)
goes without it, alone: it may land late.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger.nats.epoch import Denied, Epoch, Lost, Nobody
from pares.ledger.nats.link import Link
from pares.ledger.nats.read import QUIET
from pares.ledger.nats.stream import Streams, bell_of

_EXPECT: Final = "Nats-Expected-Last-Subject-Sequence"
_HEADER: Final = 512
"""Bytes that a message has besides its payload, and more than that."""
_BATCH: Final = 1000
_TURNS: Final = 5
_PAUSE: Final = 0.01
_WRONG_LAST: Final = 10071
_BUSY: Final = (10164, 10163)
"""An earlier message on one's own subject is on its way into the log, or the stream's leader is new and does not know yet."""
_TOO_LARGE: Final = (10054,)
_FULL: Final = 10077
_REFUSALS: Final = frozenset(
    {
        *_TOO_LARGE,
        10008,  # no leader of all streams
        10009,
        10023,  # resources
        10047,
        10060,  # another stream than expected
        10109,  # sealed
        10122,
        *range(10174, 10181),  # of atomic batches: not enabled, incomplete, a header that may not be there, a bad id
        10193,
        10199,  # too large, and the like
        10200,
        10201,
        10205,
        10210,  # too many at once
        10211,
    }
)
"""After these nothing was appended. Whatever is not listed here is of unknown outcome."""


class _Shape(NamedTuple):
    """How to append to a stream."""

    subject: str
    fenced: bool
    atomic: bool
    largest: int


class _Landed(Exception):
    """One's own last message is not where it was expected: it is there."""

    def __init__(self, place: int) -> None:
        self.place = place


class _Busy(Exception):
    """Refused for now: what comes before it on one's own subject is not decided yet."""


class _Try:
    """How far an append has come: whether something of unknown outcome was sent, and what was acknowledged."""

    def __init__(self, urgent: bool) -> None:
        self.marks: dict[str, str] = {} if urgent else {QUIET: "1"}
        self.sent = False
        self.offsets: list[int] = []


class Appender:
    """Appends of one ledger, to any stream; those to one stream take turns."""

    def __init__(self, link: Link, streams: Streams, doubt: Callable[[str], None] = lambda stream: None) -> None:
        """`doubt` hears of a stream in which this ledger's last message is no longer: it may be another one."""
        self._link = link
        self._streams = streams
        self._doubt = doubt
        self._where = link.settings.where
        self._writer = secrets.token_hex(8)
        self._batches = itertools.count(1)
        self._turns: dict[str, asyncio.Lock] = {}
        self._shapes: dict[str, _Shape] = {}
        self._last: dict[str, int] = {}
        """Of each stream: the sequence of this ledger's own last message, as far as is known."""
        self._shaken: set[str] = set()
        """Streams to which an append is of unknown outcome."""

    def append(self, stream: str, payloads: Sequence[bytes], *, urgent: bool = True, bell: bool = False) -> list[int]:
        """The offsets of `payloads`. `bell`: lazy readers may have to be woken, if they are `urgent`."""
        return self._link.call(self._append(stream, payloads, urgent, bell))

    async def _append(self, stream: str, payloads: Sequence[bytes], urgent: bool, bell: bool) -> list[int]:
        done = _Try(urgent)
        epoch = None
        try:
            async with asyncio.timeout(self._link.settings.timeout):
                async with self._turns.setdefault(stream, asyncio.Lock()):
                    epoch = await self._link.epoch()
                    try:
                        await self._carry_out(epoch, stream, payloads, done)
                    except BaseException:
                        if done.sent:
                            self._shaken.add(stream)
                        raise
            if urgent and bell:
                with contextlib.suppress(Lost):  # it is in the log: who does not hear the bell finds it there
                    await epoch.publish(bell_of(stream), b"")
            return done.offsets
        except (TimeoutError, Lost) as error:
            raise self._link.unavailable(epoch, "append", str(error), unknown=done.sent or bool(done.offsets)) from None
        except Denied as error:
            refused = self._link.denied("append", error)
            refused.unknown = bool(done.offsets)
            raise refused from None
        except LedgerUnavailable as error:
            # Of an append in parts a part may stand in the log already.
            error.unknown = error.unknown or bool(done.offsets)
            raise

    async def _carry_out(self, epoch: Epoch, stream: str, payloads: Sequence[bytes], done: _Try) -> None:
        if stream in self._shaken and await self._streams.describe(stream, epoch) is None:
            raise self._gone(stream)
        shape = self._shapes.get(stream) or await self._shape(epoch, stream)
        for part in self._parts(epoch, shape, payloads):
            await self._send(epoch, stream, shape, part, done)
        self._shaken.discard(stream)

    async def _shape(self, epoch: Epoch, stream: str) -> _Shape:
        found = await self._streams.describe(stream, epoch)
        if found is None:
            raise self._gone(stream)
        subject, fenced = _own_subject(found.config["subjects"], self._writer)
        largest = int(found.config.get("max_msg_size", -1))
        shape = _Shape(subject, fenced, bool(found.config.get("allow_atomic")), largest if largest > 0 else 1 << 62)
        self._shapes[stream] = shape
        return shape

    def _parts(self, epoch: Epoch, shape: _Shape, payloads: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
        """What goes together. Raises for what goes not at all."""
        largest = min(epoch.max_payload, shape.largest)
        if (size := max(map(len, payloads))) > largest:
            raise self._too_large(size, largest)
        begin = 0
        for at, payload in enumerate(payloads):
            alone = len(payload) + _HEADER > largest or not shape.atomic
            if at > begin and (alone or at - begin == _BATCH):
                yield payloads[begin:at]
                begin = at
            if alone:
                yield payloads[at : at + 1]
                begin = at + 1
        if begin < len(payloads):
            yield payloads[begin:]

    async def _send(self, epoch: Epoch, stream: str, shape: _Shape, part: Sequence[bytes], done: _Try) -> None:
        turns = 0
        while turns < _TURNS:
            try:
                last = await self._request(epoch, stream, shape, part, done)
            except _Landed as error:
                # Refused, so this one is not there. An earlier one is, or the log is another one, or was trimmed.
                if error.place < self._last.get(stream, 0):
                    self._doubt(stream)
                self._last[stream] = error.place
                turns += 1
                continue
            except _Busy:
                await asyncio.sleep(_PAUSE)
                continue
            except Nobody:
                done.sent = False
                self._shapes.pop(stream, None)
                raise LedgerUnavailable(
                    f"{self._where}: could not append: the stream {stream} is not there, or has no leader now; open the ledger "
                    "again, or look whether enough servers run"
                ) from None
            except Denied:
                done.sent = False
                raise
            self._last[stream] = last
            done.offsets += range(last - len(part), last)
            return
        raise LedgerUnavailable(
            f"{self._where}: could not append: somebody else publishes on {shape.subject}, this ledger's own; find out who"
        )

    async def _request(self, epoch: Epoch, stream: str, shape: _Shape, part: Sequence[bytes], done: _Try) -> int:
        """One attempt; the sequence of its last message. Raises `_Landed` if it does not come next."""
        headers: dict[str, str] = {**done.marks}
        if shape.fenced and len(part[0]) + _HEADER <= min(epoch.max_payload, shape.largest):
            headers[_EXPECT] = str(self._last.get(stream, 0))
        if len(part) > 1:
            batch = {"Nats-Batch-Id": f"{self._writer}-{next(self._batches)}"}
            for number, payload in enumerate(part[:-1], 1):
                await epoch.publish(
                    shape.subject, payload, headers={**headers, **batch, "Nats-Batch-Sequence": str(number)}
                )
                headers = done.marks
            headers = {**done.marks, **batch, "Nats-Batch-Sequence": str(len(part)), "Nats-Batch-Commit": "1"}
        # Up to here nothing can have happened: a batch that is not committed is dropped.
        done.sent = True
        answer: Any = msgspec.json.decode((await epoch.request(shape.subject, part[-1], headers)).data)
        if (error := answer.get("error")) is not None:
            raise self._refused(stream, error, part, done)
        if answer.get("stream") != stream:
            raise ConfigError(
                f"{self._where}: the subject {shape.subject} belongs to the stream {answer.get('stream')}, "
                f"not to {stream}: use another one"
            )
        done.sent = False
        return int(answer["seq"])

    def _refused(self, stream: str, error: Any, part: Sequence[bytes], done: _Try) -> Exception:
        number, text = int(error.get("err_code", 0)), str(error.get("description"))
        if number == _WRONG_LAST and (place := re.search(r"(\d+)\s*$", text)):
            done.sent = False
            return _Landed(int(place[1]))
        if number in _BUSY:
            done.sent = False
            return _Busy()
        self._shapes.pop(stream, None)
        if number in _REFUSALS or (number == _FULL and "maximum" in text):
            done.sent = False
            if number in _TOO_LARGE:
                return self._too_large(max(map(len, part)), None)
        outcome = "; whether it happened is unknown" if done.sent else ""
        return LedgerUnavailable(
            f"{self._where}: could not append{outcome}: the stream {stream} refused: {text} (error {number})",
            unknown=done.sent,
        )

    def _too_large(self, size: int, largest: int | None) -> ConfigError:
        limit = f"={largest}" if largest is not None else ""
        return ConfigError(
            f"{self._where}: a payload of {size} bytes does not fit into the server's max_payload or the stream's "
            f"max_msg_size{limit}: "
            "raise it, or write less"
        )

    def _gone(self, stream: str) -> LedgerUnavailable:
        self._shapes.pop(stream, None)
        return self._streams.gone(stream)


def _own_subject(subjects: Sequence[str], writer: str) -> tuple[str, bool]:
    """A subject among a stream's that no other ledger uses, and whether there is one; else its first."""
    for subject in subjects:
        tokens = subject.split(".")
        if {"*", ">"} & {*tokens}:
            return ".".join(writer if token in "*>" else token for token in tokens), True
    return subjects[0], False
