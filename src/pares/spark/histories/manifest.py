"""What a batch is: one file that names its ranges and its files, and follows the one before.

`manifests/00000000000000000000.json` is the first. The last of them says where each partition of the log was read up to, and
where the state of its fold is; all together they say which files the tables consist of.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pares.core.errors import CapabilityError, ConfigError, ParesError, Stale
from pares.spark.histories import disk

FORMAT: Final = 1
_FOLDER: Final = "manifests"


class Overtaken(ParesError):
    """Another writer has committed the batch that this one was about to commit: nothing of this one is in the history. `batch`
    is its number. Update again: it then goes on from there."""

    def __init__(self, message: str, batch: int) -> None:
        super().__init__(message)
        self.batch = batch


class File(Struct, frozen=True):
    """One file of a table, by its path within the history."""

    path: str
    rows: int
    bytes: int


class Done(Struct, frozen=True):
    """How far a partition of the log has been read."""

    upto: int
    """The offset that is read next."""
    world: str = ""
    """The file with the state of the fold there."""
    ends: str = ""
    """The file with the facts that are said of the log's end, as if it ended there."""
    since: int = 0
    """The batch with which its fold began: nothing is known to be missing from there on."""


class Manifest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One batch. It has no time and no name of a run: a batch that is done again has the same manifest."""

    format: int = FORMAT
    batch: int
    log: str
    """The log by its identity."""
    url: str
    """The log's URL, as people may read it."""
    groups: list[str] | None
    """The groups that are kept; None: all."""
    claims_in: int
    error_ms: int
    token: int
    ranges: dict[str, tuple[int, int]]
    """What this batch has read, by partition: from the first offset to before the second."""
    lost: dict[str, tuple[int, int]] = {}
    """What the log no longer had, by partition, where this batch does not begin where the last one ended: from where that ended
    to where it goes on, which is lower where a log has lost its tail."""
    partitions: dict[str, Done]
    """How far all partitions have been read now."""
    files: dict[str, list[File]]
    """This batch's, by table."""
    pares: str
    """The version that has written it."""


class Chain:
    """The manifests of a history in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER

    def read(self) -> list[Manifest]:
        """All batches, in order; none where there is no history. Raises `ConfigError` for one that is missing or no manifest,
        and `CapabilityError` for one of a newer format."""
        numbers = self._numbers()
        if numbers != list(range(len(numbers))):
            missing = next(n for n, number in enumerate(numbers) if n != number)
            raise ConfigError(
                f"the history in {self._folder.parent} has no batch {missing}, and later ones: restore it"
            )
        return [self._one(number) for number in numbers]

    def last(self, log: str | None = None) -> Manifest | None:
        """The newest batch, or the newest of this log; None where there is none."""
        for number in reversed(self._numbers()):
            found = self._one(number)
            if log is None or found.log == log:
                return found
        return None

    def between(self, low: int, high: int) -> list[Manifest]:
        """The batches from `low` to `high`, both of which are there."""
        return [self._one(number) for number in range(low, high + 1)]

    def check(self, manifest: Manifest, before: Manifest | None) -> None:
        """Raises `ConfigError` for a batch that does not follow `before`, and `Stale` for a lower token."""
        if before is not None and manifest.token < before.token:
            raise Stale(
                manifest.token,
                before.token,
                f"token {manifest.token} is lower than {before.token}, under which batch {before.batch} of "
                f"{self._folder.parent} was committed: another writer leads now, so this one must stop",
            )
        if manifest.batch != (0 if before is None else before.batch + 1):
            raise ConfigError(f"batch {manifest.batch} does not follow the last one of {self._folder.parent}")
        if before is None or before.log != manifest.log:
            return
        for number, (low, _) in manifest.ranges.items():
            known = before.partitions.get(number)
            if known is not None and low != known.upto and manifest.lost.get(number) != (known.upto, low):
                raise ConfigError(
                    f"batch {manifest.batch} begins at {low} of partition {number}, read up to {known.upto}"
                )
        forgotten = before.partitions.keys() - manifest.partitions.keys()
        if forgotten:
            raise ConfigError(f"batch {manifest.batch} does not say how far partitions {sorted(forgotten)} were read")

    def commit(self, manifest: Manifest) -> None:
        """Adds the batch, if it begins where the newest one there ends. Raises `Overtaken` if there is one of its number."""
        last = self.last()
        if last is not None and last.batch >= manifest.batch:
            self._overtaken(manifest, last)
        self.check(manifest, last)
        with disk.draft(self._folder) as draft:
            draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=1))
            if not disk.create(draft, self._place(manifest.batch)):
                self._overtaken(manifest, self._one(manifest.batch))

    def _overtaken(self, manifest: Manifest, winner: Manifest) -> None:
        if winner.token > manifest.token:
            self.check(msgspec.structs.replace(manifest, batch=winner.batch + 1), winner)
        raise Overtaken(
            f"another writer has committed batch {manifest.batch} of {self._folder.parent}: nothing of this one is in it; "
            "update again to go on from there",
            manifest.batch,
        )

    def _numbers(self) -> list[int]:
        return sorted(self._named())

    def _named(self) -> Iterator[int]:
        if self._folder.is_dir():
            for path in self._folder.iterdir():
                if path.suffix == ".json" and path.stem.isdigit():
                    yield int(path.stem)

    def _place(self, number: int) -> Path:
        return self._folder / f"{number:020d}.json"

    def _one(self, number: int) -> Manifest:
        place = self._place(number)
        try:
            found = msgspec.json.decode(place.read_bytes(), type=_Format)
            if found.format > FORMAT:
                raise CapabilityError(
                    f"{place} is of format {found.format}: a newer pares has written it; upgrade here"
                )
            return msgspec.json.decode(place.read_bytes(), type=Manifest)
        except FileNotFoundError:
            raise ConfigError(f"the history in {self._folder.parent} has no batch {number}: restore it") from None
        except msgspec.DecodeError as error:
            raise ConfigError(f"{place} is no manifest of a history: {error}") from error


class _Format(Struct):
    format: int
