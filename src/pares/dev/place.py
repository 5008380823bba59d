"""Where the nodes of a dev cluster listen."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True):
    """One node: where it listens for clients, for the other nodes, and for monitoring (0: nowhere)."""

    id: int
    host: str
    port: int
    peer_port: int
    monitor_port: int = 0

    @property
    def address(self) -> str:
        return address(self.host, self.port)

    @property
    def peer_address(self) -> str:
        return address(self.host, self.peer_port)


def address(host: str, port: int) -> str:
    """`HOST:PORT`, also of an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
