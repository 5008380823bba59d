"""A NATS for the ledgers' tests, and what they do to it."""

import asyncio
import json
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nats as client_library
from ledger_stages import ServedStage, in_processes

from pares.dev import Nats

WAIT = 30.0
EVERYBODY = {"user": "everybody", "password": "x"}
OPEN = {"no_auth_user": "everybody", "authorization": {"users": [EVERYBODY]}}
"""Settings of a server where whoever says nothing is a user whose rights can be changed."""


class Server:
    """A running NATS, and an administrator of it."""

    def __init__(self, nats: Nats) -> None:
        self.nats = nats

    def name(self) -> str:
        """A stream that nobody has used."""
        return f"t-{uuid.uuid4().hex[:12]}"

    def api(self, subject: str, /, **body: Any) -> Any:
        """One request to JetStream, by the plain client library."""
        return json.loads(self.request(f"$JS.API.{subject}", json.dumps(body).encode() if body else b""))

    def request(self, subject: str, payload: bytes = b"", **headers: str) -> bytes:
        async def run() -> bytes:
            client = await client_library.connect(
                [f"nats://{server}" for server in self.nats.bootstrap.split(",")],
                **self.nats.client(),  # pyright: ignore[reportArgumentType]
            )
            try:
                named = {name.replace("_", "-"): value for name, value in headers.items()}
                return (await client.request(subject, payload, timeout=WAIT, headers=named or None)).data
            finally:
                await client.close()

        return asyncio.run(run())

    def make(self, stream: str, **config: Any) -> None:
        made = self.api(
            f"STREAM.CREATE.{stream}", **{"name": stream, "subjects": [f"{stream}.*"], "storage": "file", **config}
        )
        assert "error" not in made, made

    def update(self, stream: str, **config: Any) -> None:
        now = self.api(f"STREAM.INFO.{stream}")["config"]
        done = self.api(f"STREAM.UPDATE.{stream}", **{**now, **config})
        assert "error" not in done, done

    def streams(self, prefix: str) -> list[str]:
        found: list[str] = self.api("STREAM.NAMES").get("streams") or []
        return [name for name in found if name.startswith(prefix)]

    def delete(self, prefix: str) -> None:
        """Delete every stream that begins like this."""
        for name in self.streams(prefix):
            assert self.api(f"STREAM.DELETE.{name}")["success"]

    @contextmanager
    def denied(self, *subjects: str) -> Generator[None]:
        """Nobody may publish on these."""
        user = {**EVERYBODY, "permissions": {"publish": {"deny": list(subjects)}}}
        self.nats.reload({**OPEN, "authorization": {"users": [user]}})
        try:
            yield
        finally:
            self.nats.reload(OPEN)


class NatsStage(ServedStage):
    """Streams of its own for each test, all on one NATS."""

    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self.server = server
        self.stream = server.name()

    @property
    def url(self) -> str:
        return f"nats://{self.server.nats.bootstrap}/{self.stream}?prefix={self.stream}-&timeout=20"

    @contextmanager
    def outage(self) -> Generator[None]:
        with self.server.denied(f"pares.log.{self.stream}.>", f"$JS.API.STREAM.PURGE.{self.stream}"):
            yield

    def delete(self) -> None:
        self.server.delete(self.stream)

    def there(self) -> bool:
        return bool(self.server.streams(self.stream))

    def elsewhere(self, names: list[str], count: int) -> dict[str, list[int]]:
        return in_processes(self.url, names, count)

    def close(self) -> None:
        super().close()
        self.delete()
