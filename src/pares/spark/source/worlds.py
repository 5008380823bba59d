"""What a fold remembers at an offset, kept in a folder: the next read goes on from there and folds nothing twice.

A stream of facts needs the fold of all that came before each of its batches. Without such a folder every batch folds the log
from its beginning; with one, from where the last batch ended. The facts are the same, so the folder may be lost: nothing
depends on it but time, and logs whose beginning is trimmed away, of which the folder then knows more than the log. All workers
must see it, as they must a stream's checkpoint.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pares.spark.facts.frozen import OtherState, freeze, thaw

if TYPE_CHECKING:
    from pares.spark.facts.folding import Partition

KEPT: Final = 3
"""States that are kept of a partition: a batch that is done again begins before the newest."""
_END: Final = ".world"


class Worlds:
    """The states of one partition's fold, by offset, in `folder`. `about` says what is folded, and how: states of another log,
    of other groups or of another error of the clocks are kept apart."""

    def __init__(self, folder: str | Path, about: str) -> None:
        self._folder = Path(folder) / hashlib.sha256(about.encode()).hexdigest()[:32]

    def before(self, offset: int) -> tuple[Partition, int] | None:
        """The newest state at `offset` or before, and its offset; None if there is none that this version can read."""
        for at in reversed([at for at in self._offsets() if at <= offset]):
            with contextlib.suppress(OtherState, FileNotFoundError):
                return thaw(self._place(at).read_bytes()), at
        return None

    def keep(self, fold: Partition, offset: int) -> None:
        """Keeps the state as the one at `offset`. It is there whole or not at all."""
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._folder / f".{offset}-{os.getpid()}.draft"
        draft.write_bytes(freeze(fold))
        os.replace(draft, self._place(offset))
        for at in self._offsets()[:-KEPT]:
            self._place(at).unlink(missing_ok=True)

    def _place(self, offset: int) -> Path:
        return self._folder / f"{offset:020d}{_END}"

    def _offsets(self) -> list[int]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(int(path.stem) for path in self._folder.iterdir() if path.suffix == _END)
        return []
