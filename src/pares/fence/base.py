"""What a fence is given, and what it promises.

Between a look at a term and the write that follows it a process may be frozen for an hour; then it writes, in the name
of a term that is long over (docs/guarantees.md). No clock and no lease closes that gap. What does is the place where
the write lands: it remembers the highest token that it has seen for each seat and refuses a lower one, *in one step
with the write*. A fence that looks first and writes after has the same gap again, only smaller; so every fence here
either raises the token and writes in one transaction, or makes its write conditional on what it has seen.

A fence refuses nothing before it has seen the higher token. A new leader whose predecessor must not write any more at
all passes the fence once before it does anything else.
"""

from __future__ import annotations

from typing import Final, Protocol

from pares.core.errors import ConfigError

MAX_TOKEN: Final = 2**63
"""Databases keep a token in 64 bits with a sign."""


class Held(Protocol):
    """What a fence needs of a term: a `pares.Term` has it, and so has whatever carries these three to another
    process."""

    @property
    def role(self) -> str: ...

    @property
    def seat(self) -> int:
        """The seat's index within its role."""
        ...

    @property
    def token(self) -> int: ...


def check_held(term: Held) -> tuple[str, int, int]:
    """Role, seat and token of `term`, or `ConfigError` for values that no term has."""
    role, seat, token = term.role, term.seat, term.token
    if not role or not _is_integer(seat) or not 0 <= seat < MAX_TOKEN:
        raise ConfigError(f"{role!r}/{seat!r} is no seat: give a term, or an object with its role, seat and token")
    if not _is_integer(token) or not 0 <= token < MAX_TOKEN:
        raise ConfigError(f"{token!r} is no token: give a term, or an object with its role, seat and token")
    return role, seat, token


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
