"""Ports for servers that are started, killed and started again at the same place.

A port that the system hands out is a bad choice for that: it comes from the range from which outgoing connections take theirs.
While the server is down, any connection of anybody may get it; and on loopback a client that tries again and again to reach
it does, sooner or later, by connecting to itself. So ports are drawn from outside of that range.
"""

from __future__ import annotations

import errno
import random
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError, ConfigError

LOWEST: Final = 10_000
HIGHEST: Final = 65_535
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_RANGE: Final = (32_768, 60_999)
_TRIES: Final = 1000


def free(hosts: list[str]) -> list[int]:
    """A port for each host, all different, that nothing listens on there now.

    A host may be an address that only another network namespace has: then the port is only drawn. Nothing is reserved:
    somebody may take a port before the server does. Raises `ConfigError` for a host that is no address, `CapabilityError` if
    all is full.
    """
    pool = _pool()
    chosen: list[int] = []
    with ExitStack() as stack:
        for host in hosts:
            for port in random.sample(pool, min(_TRIES, len(pool))):
                if port not in chosen and _bind(stack, host, port):
                    chosen.append(port)
                    break
            else:
                raise CapabilityError(
                    f"no free port was found at {host} in {_TRIES} tries; end some of what listens there"
                )
    return chosen


def is_free(host: str, port: int) -> bool:
    """Whether nothing listens there now."""
    with ExitStack() as stack:
        return _bind(stack, host, port)


def _bind(stack: ExitStack, host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except socket.gaierror as error:
        raise ConfigError(f"{host!r} is no address to listen at: {error.strerror}") from None
    probe = stack.enter_context(socket.socket(family, kind, protocol))
    # As servers do: a port with nothing but old connections in it is free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(address)
    except OSError as error:
        return error.errno == errno.EADDRNOTAVAIL
    return True


def _pool() -> range:
    """The larger part of what lies outside the range of outgoing connections; all, if nothing much does."""
    try:
        low, high = map(int, _RANGE.read_text().split())
    except (OSError, ValueError):
        low, high = _USUAL_RANGE
    outside = max(range(LOWEST, low), range(max(high + 1, LOWEST), HIGHEST), key=len)
    return outside if len(outside) >= _TRIES else range(LOWEST, HIGHEST)
