"""A Maven repository on loopback, with faults: what comes from Maven Central, but at the test's mercy.

It holds Kafka's real jars, taken from where `pares.dev.kafka.jars` keeps them: the broker's own under its real name, which
depends on each of the others under a made-up one.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

from pares.dev.kafka import jars

MAIN = f"/org/apache/kafka/kafka_{jars.SCALA}/{jars.VERSION}/kafka_{jars.SCALA}-{jars.VERSION}"
LOGGER = "/org/slf4j/slf4j-simple/1.7.36/slf4j-simple-1.7.36"
POM = """<?xml version="1.0"?><project><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version><dependencies>{dependencies}</dependencies></project>
"""
DEPENDENCY = "<dependency><groupId>it</groupId><artifactId>{}</artifactId><version>1</version></dependency>"


class Maven:
    """`url` is its root. `missing`, `cut` and `spoilt` name files (by the end of their path) that are not there, that break off
    half way, and that are other bytes than their checksum says; `stumbles` those that break off the first time only.

    With `vouch` off it has no checksums. While `stuck` is an event that is not set, one jar is not sent; `reached` says that it
    was asked for."""

    def __init__(self, real: Path) -> None:
        self.missing: set[str] = set()
        self.cut: set[str] = set()
        self.spoilt: set[str] = set()
        self.stumbles: set[str] = set()
        self.replaced: dict[str, bytes] = {}
        self.vouch = True
        self.asked: list[str] = []
        self.stuck: threading.Event | None = None
        self.reached = threading.Event()
        self._files: dict[str, Path | bytes] = {}
        others: list[str] = []
        for jar in sorted(real.glob("*.jar")):
            if jar.name.startswith((f"kafka_{jars.SCALA}-", "slf4j-simple-")):
                continue
            others.append(jar.stem)
            path = f"/it/{jar.stem}/1/{jar.stem}-1"
            self._files[f"{path}.pom"] = POM.format(group="it", name=jar.stem, version="1", dependencies="").encode()
            self._files[f"{path}.jar"] = jar
        needs = "".join(map(DEPENDENCY.format, others))
        for path, dependencies in ((MAIN, needs), (LOGGER, "")):
            *group, name, version, stem = path.strip("/").split("/")
            pom = POM.format(group=".".join(group), name=name, version=version, dependencies=dependencies)
            self._files[f"{path}.pom"] = pom.encode()
            self._files[f"{path}.jar"] = real / f"{stem}.jar"
        maven = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                maven.answer(self, body=True)

            def do_HEAD(self) -> None:
                maven.answer(self, body=False)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def settings(self, folder: Path) -> Path:
        """An Ivy settings file that knows this repository and no other."""
        path = folder / "settings of the mirror.xml"
        path.write_text(
            '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
            f'<ibiblio name="mirror" m2compatible="true" root="{self.url}"/></resolvers></ivysettings>'
        )
        return path

    def answer(self, request: BaseHTTPRequestHandler, *, body: bool) -> None:
        path, _, _ = request.path.partition(".sha1")
        if body:
            self.asked.append(request.path)
        data = self._bytes(path)
        if data is None or ".md5" in path or (request.path.endswith(".sha1") and not self.vouch):
            request.send_error(404)
            return
        if request.path.endswith(".sha1"):
            data = hashlib.sha1(data).hexdigest().encode()
        elif path.endswith(tuple(self.spoilt) or ("\0",)):
            data = data[:-1000] + bytes(1000)
        breaks_off = path.endswith(tuple(self.cut) or ("\0",))
        if body and (stumbled := [name for name in self.stumbles if request.path.endswith(name)]):
            self.stumbles -= {*stumbled}
            breaks_off = True
        sent = data[: len(data) // 2] if breaks_off else data
        if body and self.stuck is not None and path.endswith("snakeyaml-2.5-1.jar"):
            self.reached.set()
            self.stuck.wait(60)
        request.send_response(200)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        if body:
            with contextlib.suppress(ConnectionError):  # the other side's death may be what is tested
                request.wfile.write(sent)

    def _bytes(self, path: str) -> bytes | None:
        if path.endswith(tuple(self.missing) or ("\0",)):
            return None
        for end, data in self.replaced.items():
            if path.endswith(end):
                return data
        found = self._files.get(path)
        return found.read_bytes() if isinstance(found, Path) else found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
