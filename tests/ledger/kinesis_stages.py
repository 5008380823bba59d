"""A Kinesis for the ledgers' tests (moto, an emulator), and what they do to it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

from ledger_stages import ServedStage, in_processes

from kinesis_tools import Moto, new_name


class KinesisStage(ServedStage):
    """Streams of its own for each test, all on one emulator."""

    often = 20
    session = 3.0

    def __init__(self, folder: Path, moto: Moto) -> None:
        super().__init__(folder)
        self.moto = moto
        self.stream = new_name()

    @property
    def url(self) -> str:
        return f"{self.moto.url(self.stream)}&timeout=20"

    def outage(self) -> AbstractContextManager[None]:
        """Nobody may write to these streams."""
        return self.moto.fault("deny", "PutRecord", stream=self.stream)

    def delete(self) -> None:
        self.moto.delete(self.stream)

    def there(self) -> bool:
        return bool(self.moto.names(self.stream))

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
