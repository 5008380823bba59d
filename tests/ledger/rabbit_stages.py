"""A RabbitMQ for the ledgers' tests, and what they do to it."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ledger_stages import ServedStage, in_processes
from log_tools import until

from pares.dev import RabbitMQ
from rabbit_tools import Management


class RabbitStage(ServedStage):
    """Streams of its own for each test, all on one server."""

    often = 20

    def __init__(self, folder: Path, server: RabbitMQ) -> None:
        super().__init__(folder)
        self.server = server
        self.stream = f"t-{uuid.uuid4().hex[:12]}"
        self.management = Management(server)

    @property
    def url(self) -> str:
        return f"{self.server.stream_url(self.stream)}?timeout=20"

    @contextmanager
    def outage(self) -> Generator[None]:
        """Nobody may write to these streams; a connection that could before is another one now."""
        self.management.permit(write=f"^(?!{self.stream})")
        # The server tells of a connection a moment after it was made.
        until(lambda: len(self.management.connections()) >= len(self._opened))
        cut = self.management.cut_connections()
        until(lambda: not cut & {each["name"] for each in self.management.connections()})
        try:
            yield
        finally:
            self.management.permit()

    def delete(self) -> None:
        self.management.delete_queues(self.stream)

    def there(self) -> bool:
        return bool(self.management.queues(self.stream))

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
