"""What a batch covers, and whether it may follow what was published last.

Batch numbers alone prove nothing: they begin at 0 again when a checkpoint is lost, and then a sink that goes by them skips new
rows as old ones. So a batch is known by the ranges of its input, and a sink publishes one only where the last one ended. The
judgement is a pure function of two values; a sink asks it in the transaction that publishes, with what it reads there.

| a batch that | of a stream | of offsets |
|---|---|---|
| begins where the last one ended | is published | is published |
| is the last one, again | is dropped as a duplicate | is dropped as a duplicate |
| begins before that | is refused | is refused, until its beginning is cut off |
| begins behind that | is refused | is published: holes and retention are the consumer's to tell of |
"""

from __future__ import annotations

from typing import Final

import msgspec

from pares.core.errors import ParesError


class NotContiguous(ParesError):
    """A sink refused a batch that does not begin where the last published one ended. Nothing of it was published; trying again
    changes nothing."""


class StreamExtent(msgspec.Struct, frozen=True, tag="stream"):
    """A batch of a streaming query, as its checkpoint has it. `start`, `end`: offsets of all its sources, in Spark's own words;
    `start` is None for the first batch of a checkpoint."""

    query: str
    batch: int
    start: str | None
    end: str

    def follows(self, last: StreamExtent) -> bool:
        """Whether it is to be published after `last`; False: it is `last` again. Raises `NotContiguous`."""
        if (self.query, self.batch, self.end) == (last.query, last.batch, last.end):
            return False
        if self.start is not None and self.start == last.end and (self.query != last.query or self.batch > last.batch):
            return True
        if self.query != last.query and self.start is None:
            raise NotContiguous(
                f"query {self.query} begins anew, but the sink ends with batch {last.batch} of query {last.query}: its "
                "checkpoint was lost or replaced. Put that checkpoint back, or let the sink `forget` the old query if the new "
                "one begins where that ended"
            )
        raise NotContiguous(
            f"batch {self.batch} of query {self.query} goes from {self.start} to {self.end}, and the sink ends with batch "
            f"{last.batch} of query {last.query} at {last.end}: the checkpoint is older or newer than the sink; put back the "
            "one that belongs to it"
        )


class OffsetExtent(msgspec.Struct, frozen=True, tag="offsets"):
    """Offsets of one partition, from `first` to before `next`."""

    first: int
    next: int

    def follows(self, last: OffsetExtent) -> bool:
        """As of `StreamExtent`."""
        if self.next <= last.next:
            return False
        if self.first >= last.next:
            return True
        raise NotContiguous(
            f"offsets {self.first} to {self.next - 1} were to be published, and those below {last.next} are published already: "
            f"stage only what begins at {last.next}"
        )


Extent = StreamExtent | OffsetExtent


class Published(msgspec.Struct, frozen=True):
    """A batch that a sink has published. `number`: counted by the sink, for this seat; `rows`: how many it brought."""

    number: int
    token: int
    extent: Extent
    rows: int
    at_ms: int
    """The driver's wall clock, for people."""


def follows(extent: Extent, last: Published | None) -> bool:
    """Whether `extent` is to be published; False: it is there already. Raises `NotContiguous`. A sink that has published
    nothing begins with whatever comes first."""
    if last is None:
        return True
    before = last.extent
    if isinstance(extent, StreamExtent) and isinstance(before, StreamExtent):
        return extent.follows(before)
    if isinstance(extent, OffsetExtent) and isinstance(before, OffsetExtent):
        return extent.follows(before)
    raise NotContiguous(
        f"{extent} can't follow {before}: of a streaming query and of claimed work, the sink has one under this role and is "
        "given the other; use another role, table or folder"
    )


ENCODER: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Extent)


def encoded(extent: Extent) -> str:
    """As a sink keeps it."""
    return ENCODER.encode(extent).decode()


def decoded(text: str) -> Extent:
    """Raises `ParesError` for what no sink has written."""
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError as error:
        raise ParesError(f"{text[:200]!r} is no extent: {error}; something else than a sink has written it") from error
