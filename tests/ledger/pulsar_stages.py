"""A Pulsar for the ledgers' tests, and what they do to it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ledger_stages import ServedStage, in_processes

from pares.dev import Pulsar
from pares.ledger import Ledger
from pulsar_tools import Management


class PulsarStage(ServedStage):
    """Topics of its own for each test, all on one server."""

    often = 10

    def __init__(self, folder: Path, server: Pulsar) -> None:
        super().__init__(folder)
        self.server = server
        self.topic = f"t-{uuid.uuid4().hex[:12]}"
        self.management = Management(server)

    @property
    def url(self) -> str:
        return f"{self.server.topic_url(self.topic)}&timeout=20"

    def impatient(self) -> Ledger:
        return self.open(timeout=2)

    @contextmanager
    def outage(self) -> Generator[None]:
        """Nobody may write to topics of this namespace; a connection that could before is another one now."""
        self._refuse(True)
        try:
            yield
        finally:
            self._refuse(False)

    def _refuse(self, refuse: bool) -> None:
        self.management.require_encryption(refuse)
        self.management.unload(self.topic)
        time.sleep(0.3)  # the broker has told its clients, and they hear of it a moment later

    def delete(self) -> None:
        self.management.delete(self.topic)

    def there(self) -> bool:
        return self.management.mark(self.topic) is not None

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
