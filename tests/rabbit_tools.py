"""A RabbitMQ's management, by its HTTP interface, for tests: users, rights, queues of any kind, connections."""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote

from pares.dev import RabbitMQ, ports

PLUGINS = ("rabbitmq_management", "rabbitmq_stream_management")
ALL = ".*"


def managed(**settings: str | int) -> RabbitMQ:
    """A server with management."""
    port = ports.free(["127.0.0.1"])[0]
    return RabbitMQ({"management.tcp.ip": "127.0.0.1", "management.tcp.port": port, **settings}, plugins=PLUGINS)


class Management:
    """An administrator of such a server."""

    def __init__(self, server: RabbitMQ) -> None:
        self._port = int(server.settings["management.tcp.port"])

    def ask(self, method: str, path: str, **body: object) -> Any:
        wire = HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            login = base64.b64encode(b"guest:guest").decode()
            headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
            wire.request(method, f"/api/{path}", json.dumps(body) if body else None, headers)
            answer = wire.getresponse()
            said = answer.read()
            if method == "DELETE" and answer.status == 404:
                return None  # it has gone by itself meanwhile
            assert answer.status < 400, (method, path, answer.status, said)
            return json.loads(said) if said else None
        finally:
            wire.close()

    def queues(self, prefix: str) -> list[str]:
        return [
            each["name"]
            for each in self.ask("GET", "queues/%2F?disable_stats=true&enable_queue_totals=true")
            if each["name"].startswith(prefix)
        ]

    def delete_queues(self, prefix: str) -> None:
        for name in self.queues(prefix):
            self.ask("DELETE", f"queues/%2F/{quote(name, safe='')}")

    def make_queue(self, name: str) -> None:
        """A classic one."""
        self.ask("PUT", f"queues/%2F/{quote(name, safe='')}", durable=True)

    def user(self, name: str, password: str) -> None:
        self.ask("PUT", f"users/{name}", password=password, tags="")

    def permit(self, user: str = "guest", configure: str = ALL, write: str = ALL, read: str = ALL) -> None:
        self.ask("PUT", f"permissions/%2F/{user}", configure=configure, write=write, read=read)

    def connections(self) -> list[Any]:
        found: list[Any] = self.ask("GET", "stream/connections/%2F")
        return found

    def cut_connections(self) -> set[str]:
        """End all stream connections, and return their names."""
        names = {each["name"] for each in self.connections()}
        for name in names:
            self.ask("DELETE", f"stream/connections/%2F/{quote(name, safe='')}")
        return names
