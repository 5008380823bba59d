"""A JetStream stream to be consumed, written to by the plain client. A record's key is the subject that it is published on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import nats as client_library
from nats_stages import Server
from origins import Origin

import pares.ledger


class InNats(Origin):
    grows = False
    holes = True
    kept_keys = False

    def __init__(self, folder: Path, server: Server) -> None:
        super().__init__(folder)
        self.server = server
        self._own = server.name()
        self.full = f"{self._own}-{self.name}"

    @property
    def url(self) -> str:
        return f"nats://{self.server.nats.bootstrap}/{self._own}?prefix={self._own}-&timeout=20"

    def make(self, partitions: int = 1, name: str | None = None) -> None:
        if name is not None:
            with_names = pares.ledger.open(self.url)
            with_names.topic(name, partitions)
            with_names.close()
        else:
            # It takes any subject, so that a subject is a key and nothing else; but for the server's own.
            self.server.make(self.full, subjects=[f"{self.full}.>", "a", "a-b", "5-x", "-", "ä€"])

    def append(self, payloads: Sequence[bytes], partition: int = 0, keys: Sequence[bytes | None] | None = None) -> None:
        subjects = [f"{self.full}.x"] * len(payloads) if keys is None else [(key or b"").decode() for key in keys]

        async def run() -> None:
            client = await client_library.connect(
                [f"nats://{server}" for server in self.server.nats.bootstrap.split(",")],
                **self.server.nats.client(),  # pyright: ignore[reportArgumentType]
            )
            stream = client.jetstream()
            try:
                for subject, payload in zip(subjects, payloads, strict=True):
                    await stream.publish(subject, payload)
            finally:
                await client.close()

        asyncio.run(run())

    def forget(self, before: int, partition: int = 0) -> None:
        assert self.server.api(f"STREAM.PURGE.{self.full}", seq=before + 1)["success"]

    def hole(self, partition: int = 0) -> None:
        """Messages that somebody deletes one by one."""
        end = self.server.api(f"STREAM.INFO.{self.full}")["state"]["last_seq"]
        self.append([b"deleted"] * 3)
        for sequence in range(end + 1, end + 4):
            assert self.server.api(f"STREAM.MSG.DELETE.{self.full}", seq=sequence)["success"]

    def vanish(self) -> None:
        assert self.server.api(f"STREAM.DELETE.{self.full}")["success"]

    def close(self) -> None:
        super().close()
        self.server.delete(self._own)
