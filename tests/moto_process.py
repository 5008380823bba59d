"""moto as a server, with what moto lacks: faults, the reads that a shard allows, and one writer at a time.

Run as `python tests/moto_process.py PORT`. It takes orders at `/pares/...`, as `kinesis_tools.Moto` sends them. moto gives two
records that are put at the same moment one number, and loses the first: a lock keeps that from happening.
"""

from __future__ import annotations

import base64
import io
import json
import socket
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Any

Start = Callable[..., Any]

ERRORS = {
    "deny": ("AccessDeniedException", "User: arn:aws:iam::123456789012:user/u is not authorized to perform this"),
    "throttle": ("ProvisionedThroughputExceededException", "Rate exceeded for shard"),
    "expire": ("ExpiredIteratorException", "Iterator expired. The iterator was created more than 5 minutes ago"),
    "login": ("UnrecognizedClientException", "The security token included in the request is invalid."),
}


class Meddler:
    """Passes requests to moto, or does to them what it was told."""

    def __init__(self, moto: Callable[..., Iterable[bytes]]) -> None:
        self._moto = moto
        self._lock = threading.Lock()
        self._faults: list[dict[str, Any]] = []
        self._counts: Counter[str] = Counter()
        self._reads = 0
        self._read: defaultdict[str, deque[float]] = defaultdict(deque)
        self._refused = 0
        self._writing = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Start) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        path = environ["PATH_INFO"]
        if path.startswith("/pares/"):
            return self._ordered(path.removeprefix("/pares/"), body, start)
        environ["wsgi.input"] = io.BytesIO(body)
        action = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        stream = _stream(body)
        with self._lock:
            self._counts[f"{action} {stream}"] += 1
            fault = next((each for each in self._faults if _meant(each, action, stream)), None)
            if fault is not None and fault["times"] > 0:
                fault["times"] -= 1
            if fault is None and action == "GetRecords" and not self._allows(stream):
                self._refused += 1
                fault = {"how": "throttle"}
        return self._meddle(fault, action, environ, start)

    def _allows(self, stream: str) -> bool:
        if not self._reads:
            return True
        now, read = time.monotonic(), self._read[stream]
        while read and read[0] < now - 1:
            read.popleft()
        if len(read) >= self._reads:
            return False
        read.append(now)
        return True

    def _meddle(
        self, fault: dict[str, Any] | None, action: str, environ: dict[str, Any], start: Start
    ) -> Iterable[bytes]:
        how = fault["how"] if fault is not None else ""
        if how in ERRORS:
            code, message = ERRORS[how]
            return _answer(start, "400 Bad Request", {"__type": code, "message": message})
        if how == "fail":
            return _answer(start, "500 Internal Server Error", {"__type": "InternalFailure", "message": "failed"})
        if how == "late" and fault is not None:
            time.sleep(fault["seconds"])
        if action == "PutRecord":
            with self._writing:
                answer = [*self._moto(environ, start)]
        else:
            answer = [*self._moto(environ, start)]
        if how == "drop":
            plug: socket.socket = environ["werkzeug.socket"]
            plug.shutdown(socket.SHUT_RDWR)
        return answer

    def _ordered(self, what: str, body: bytes, start: Start) -> Iterable[bytes]:
        given = json.loads(body) if body else {}
        with self._lock:
            if what == "fault":
                self._faults.append({"times": -1, "seconds": 0.0, "stream": "", **given})
            elif what == "heal":
                self._faults.clear()
            elif what == "reads":
                self._reads = given["a_second"]
            counts, refused = dict(self._counts), self._refused
        return _answer(start, "200 OK", {"counts": counts, "refused": refused})


def _meant(fault: dict[str, Any], action: str, stream: str) -> bool:
    return fault["times"] != 0 and action in fault["actions"] and stream.startswith(fault["stream"])


def _stream(body: bytes) -> str:
    try:
        given = json.loads(body)
    except ValueError:
        return ""
    if "ShardIterator" in given:
        return base64.b64decode(given["ShardIterator"]).decode().partition(":")[0]
    return str(given.get("StreamName", ""))


def _answer(start: Start, status: str, what: object) -> list[bytes]:
    start(status, [("Content-Type", "application/x-amz-json-1.1")])
    return [json.dumps(what).encode()]


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    moto = DomainDispatcherApplication(create_backend_app)
    run_simple("127.0.0.1", int(sys.argv[1]), Meddler(moto), threaded=True)


if __name__ == "__main__":
    main()
