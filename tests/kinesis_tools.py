"""moto for tests: an emulator of Kinesis in a process of its own, which can be frozen, killed, and told to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from pares.dev import ports
from pares.dev.process import Started, start

REGION: Final = "eu-central-1"
LOGIN: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
"""moto lets in anybody who names a user."""
_PATIENCE: Final = 60.0


class Moto:
    """On loopback, at one port for as long as it is used. It keeps all in memory: one that starts again is empty."""

    def __init__(self) -> None:
        self.port = ports.free(["127.0.0.1"])[0]
        self._folder = tempfile.TemporaryDirectory(prefix="pares-moto-")
        self._process: Started | None = None
        self._clients: list[Any] = []

    def __enter__(self) -> Moto:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for client in self._clients:
            client.close()
        self._folder.cleanup()

    def start(self) -> None:
        folder = Path(self._folder.name)
        command = [sys.executable, str(Path(__file__).with_name("moto_process.py")), str(self.port)]
        self._process = start(command, log=folder / "server.log", folder=folder, survive=False)
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self.told("heal")
                return
            except (OSError, HTTPException):
                ended = self._process.ended()
                assert ended is None, (folder / "server.log").read_text()
                assert time.monotonic() < end, "moto does not come up"
                time.sleep(0.05)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.identity.signal(9)
            process.wait(_PATIENCE)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.freeze()

    def thaw(self) -> None:
        assert self._process is not None
        self._process.identity.signal(18)

    # What it is told -------------------------------------------------------------------------------------------------

    def told(self, what: str, **given: object) -> Any:
        wire = HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE)
        try:
            wire.request("POST", f"/pares/{what}", json.dumps(given))
            return json.loads(wire.getresponse().read())
        finally:
            wire.close()

    @contextmanager
    def fault(
        self, how: str, *actions: str, stream: str = "", times: int = -1, seconds: float = 0.0
    ) -> Generator[None]:
        """Meanwhile these requests about streams whose names begin so fail: see `moto_process`."""
        self.told("fault", how=how, actions=actions, stream=stream, times=times, seconds=seconds)
        try:
            yield
        finally:
            self.told("heal")

    @contextmanager
    def reads(self, a_second: int) -> Generator[None]:
        """Meanwhile a shard answers no more reads than that."""
        self.told("reads", a_second=a_second)
        try:
            yield
        finally:
            self.told("reads", a_second=0)

    def count(self, action: str, stream: str) -> int:
        """How often this was asked for."""
        return int(self.told("count")["counts"].get(f"{action} {stream}", 0))

    def refused(self) -> int:
        """How many reads were too many."""
        return int(self.told("count")["refused"])

    # Streams ---------------------------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def url(self, stream: str, poll: str = "none") -> str:
        return f"kinesis://{REGION}/{stream}?endpoint={self.endpoint}&poll={poll}"

    def stream_url(self, stream: str) -> str:
        return self.url(stream)

    def client(self) -> Any:
        """AWS' own, which ends with this."""
        if not self._clients:
            from boto3.session import Session
            from botocore.config import Config

            self._clients.append(
                Session("testing", "testing").client(
                    "kinesis",
                    region_name=REGION,
                    endpoint_url=self.endpoint,
                    config=Config(retries={"total_max_attempts": 1}, read_timeout=_PATIENCE),
                )
            )
        return self._clients[0]

    def names(self, prefix: str) -> list[str]:
        return [name for name in self.client().list_streams(Limit=1000)["StreamNames"] if name.startswith(prefix)]

    def delete(self, prefix: str) -> None:
        for name in self.names(prefix):
            self.client().delete_stream(StreamName=name)

    def put(self, stream: str, data: bytes) -> None:
        self.client().put_record(StreamName=stream, Data=data, PartitionKey="x")


def new_name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@contextmanager
def logged_in() -> Generator[None]:
    """The environment has credentials, also for processes that a test starts."""
    before = {name: os.environ.get(name) for name in LOGIN}
    os.environ.update(LOGIN)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def pipe(program: str, *arguments: str) -> subprocess.Popen[str]:
    """A Python program that is spoken to by lines."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
