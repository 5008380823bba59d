"""A Redis for the ledgers' tests, and what they do to it."""

from __future__ import annotations

import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import redis
from ledger_stages import ServedStage, in_processes

from pares.dev import Redis


class RedisStage(ServedStage):
    """A stream of its own for each test, all in one database."""

    def __init__(self, folder: Path, server: Redis) -> None:
        super().__init__(folder)
        self.server = server
        self.stream = f"t-{uuid.uuid4().hex[:12]}"
        self.client = redis.Redis(port=server.port)

    @property
    def url(self) -> str:
        return f"{self.server.url}?stream={self.stream}&timeout=20"

    @contextmanager
    def outage(self) -> Generator[None]:
        """Everybody has lost the right to write to streams."""
        self.client.execute_command("ACL", "SETUSER", "default", "-xadd", "-xtrim")
        try:
            yield
        finally:
            self.client.execute_command("ACL", "SETUSER", "default", "+xadd", "+xtrim")

    def keys(self) -> list[bytes]:
        found: list[bytes] = list(self.client.scan_iter(f"{self.stream}*"))
        return found

    def delete(self) -> None:
        if keys := self.keys():
            self.client.delete(*keys)

    def there(self) -> bool:
        return bool(self.keys())

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
        self.client.close()
