"""A Pulsar's administration by HTTP, for tests: topics of any kind, policies, rights."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

from pares.dev import Pulsar
from pares.dev.pulsar.server import NAMESPACE

KEY = hashlib.sha256(b"a key for tests").digest()


class Management:
    """An administrator of such a server."""

    def __init__(self, server: Pulsar, token: str | None = None) -> None:
        self._server = server
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers; None: there is no such thing."""
        parts = urlsplit(self._server.admin)
        wire = HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        try:
            wire.request(method, f"/admin/v2/{path}", None if body is None else json.dumps(body), self._headers)
            answer = wire.getresponse()
            said = answer.read()
            if answer.status == 404:
                return None
            assert answer.status < 400, (method, path, answer.status, said)
            return json.loads(said) if said else None
        finally:
            wire.close()

    def topics(self, name: str) -> list[str]:
        """Those of a ledger."""
        found = [each.rpartition("/")[2] for each in self.ask("GET", f"persistent/{NAMESPACE}")]
        return [each for each in found if each == name or each.startswith((f"{name}:", f"{name}="))]

    def delete(self, name: str) -> None:
        """A ledger's topics."""
        for each in self.topics(name):
            self.ask("DELETE", f"{path(each)}?force=true")

    def mark(self, name: str) -> str | None:
        said = self.ask("GET", f"{path(name)}/subscription/pares/properties")
        return None if said is None else said.get("pares")

    def require_encryption(self, required: bool) -> None:
        """Whether what is not encrypted is refused, which is all that pares writes."""
        self.ask("POST", f"namespaces/{NAMESPACE}/encryptionRequired", required)

    def unload(self, name: str) -> None:
        """Have the broker let go of a topic, and with it of all that are connected to it."""
        self.ask("PUT", f"{path(name)}/unload")


def path(topic: str) -> str:
    return f"persistent/{NAMESPACE}/{quote(topic, safe='')}"


def token(role: str, key: bytes = KEY) -> str:
    """A token for a role, as `pulsar tokens create` makes one."""
    head = _part(json.dumps({"alg": "HS256"}).encode())
    body = _part(json.dumps({"sub": role}).encode())
    signed = f"{head}.{body}"
    return f"{signed}.{_part(hmac.digest(key, signed.encode(), 'sha256'))}"


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def guarded() -> Pulsar:
    """A server that lets in who has a token, and where the role `admin` may do everything."""
    admin = token("admin")
    return Pulsar(
        {
            "authenticationEnabled": "true",
            "authorizationEnabled": "true",
            "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
            "tokenSecretKey": f"data:;base64,{base64.b64encode(KEY).decode()}",
            "superUserRoles": "admin",
            "brokerClientAuthenticationPlugin": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
            "brokerClientAuthenticationParameters": f"token:{admin}",
        },
        token=admin,
    )
