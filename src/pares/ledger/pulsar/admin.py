"""What is asked of a cluster over HTTP: which topics and subscriptions there are, and their settings.

The client has no such requests, and over its own protocol a topic that is asked for may come to be by that.
"""

from __future__ import annotations

import base64
import json
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

from pares.ledger.pulsar.errors import NO_TOPIC, Broken, Refused, by_status
from pares.ledger.pulsar.settings import SUBSCRIPTION, Settings

_HOPS: Final = 4
"""A broker that does not serve a topic names the one that does, which may know better still."""
_MARK: Final = "pares"
"""The property of the subscription that says which log this is."""


class Admin:
    """For any thread. Raises `Refused` and `Broken`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tls = settings.context()
        self._making = max(settings.connect, settings.timeout)
        self._headers = {"Accept": "application/json", **_login(settings)}

    def version(self) -> str:
        return str(self._ask("GET", "/admin/v2/brokers/version"))

    def partitions(self, topic: str) -> int:
        """How many partitions of Pulsar's own it has, 0 for a topic without and for one that is not there."""
        try:
            said = self._ask("GET", f"{self._path(topic)}/partitions?checkAllowAutoCreation=false")
        except Refused as error:
            if error.code == NO_TOPIC:
                return 0
            raise
        return int(said.get("partitions", 0))

    def is_there(self, topic: str) -> bool:
        """Whether there is a topic of this very name. Asking makes none."""
        return self._settings.full(topic) in self._ask("GET", self._path("").rstrip("/"))

    def make(self, topic: str) -> None:
        """See to it that there is one of this name."""
        try:
            self._ask("PUT", self._path(topic), patience=self._making)
        except Refused as error:
            if error.code != "409":
                raise

    def mark(self, name: str) -> str | None:
        """Which log a partition's topic is; None: it is not there, or nobody has said so."""
        try:
            said = self._ask("GET", f"{self._path(name)}/subscription/{SUBSCRIPTION}/properties")
        except Refused as error:
            if error.code == NO_TOPIC:
                return None
            raise
        return str(said.get(_MARK) or "") or None

    def put_mark(self, name: str, mark: str) -> None:
        """Say so, unless somebody has before. From now on brokers keep everything that is in the topic."""
        begin = {"ledgerId": -1, "entryId": -1, "properties": {_MARK: mark}}
        path = f"{self._path(name)}/subscription/{SUBSCRIPTION}"
        try:
            self._ask("PUT", path, begin, self._making)
        except Refused as error:
            # 412: it was made, and somebody uses it before the broker has moved it to where it is already.
            if error.code not in ("409", "412"):
                raise
            if self.mark(name) is None:
                self._ask("PUT", f"{path}/properties", {_MARK: mark})

    def policies(self) -> dict[str, Any]:
        """The namespace's."""
        return self._ask("GET", f"/admin/v2/namespaces/{self._settings.tenant}/{self._settings.namespace}")

    def _path(self, topic: str) -> str:
        settings = self._settings
        return f"/admin/v2/persistent/{settings.tenant}/{settings.namespace}/{quote(topic, safe='')}"

    def _ask(self, method: str, path: str, body: object = None, patience: float | None = None) -> Any:
        url = f"{self._settings.admin}{path}"
        for _ in range(_HOPS):
            status, said, location = self._send(method, url, body, patience or self._settings.timeout)
            if status in (301, 302, 307, 308) and location:
                url = location
                continue
            if 200 <= status < 300:
                return _json(said)
            raise by_status(status, self._settings.scrubbed(_reason(_json(said))))
        raise Broken("the brokers send each request on to another one")

    def _send(self, method: str, url: str, body: object, timeout: float) -> tuple[int, bytes, str]:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            tls = self._tls or ssl.create_default_context()
            wire: HTTPConnection = HTTPSConnection(host, parts.port, timeout=timeout, context=tls)
        else:
            wire = HTTPConnection(host, parts.port, timeout=timeout)
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        try:
            wire.request(method, path, None if body is None else json.dumps(body), headers)
            answer = wire.getresponse()
            return answer.status, answer.read(), answer.headers.get("Location", "")
        except TimeoutError:
            raise Broken(f"{parts.scheme}://{parts.netloc} does not answer in time", sent=True) from None
        except (OSError, HTTPException) as error:
            why = self._settings.scrubbed(str(error) or type(error).__name__)
            if isinstance(error, ssl.SSLCertVerificationError):
                raise Broken(
                    f"{parts.scheme}://{parts.netloc} is not trusted ({why}): name the certificate of who signed the server's "
                    "in the client setting tls_trust_certs_file_path",
                    sent=True,
                ) from None
            raise Broken(
                f"nobody answers HTTP at {parts.scheme}://{parts.netloc} ({why}); ?admin= says where the cluster does",
                sent=True,
            ) from None
        finally:
            wire.close()


def _login(settings: Settings) -> dict[str, str]:
    client = settings.client
    if "token" in client:
        return {"Authorization": f"Bearer {client['token']}"}
    if "username" in client:
        pair = f"{client['username']}:{client.get('password', '')}".encode()
        return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
    return {}


def _reason(said: Any) -> str:
    """What the broker gives as the reason for an error; empty if it gives none."""
    return str(cast("dict[str, Any]", said).get("reason") or "")[:300] if isinstance(said, dict) else ""


def _json(said: bytes) -> Any:
    try:
        return json.loads(said) if said.strip() else {}
    except ValueError:
        return said.decode(errors="replace").strip()
