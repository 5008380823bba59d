"""The trace: one line for each thing that happens, which a person can read.

    seconds  who       what              seat     token   why

`seconds` is true time. `token` is written as #N, where N is the offset of the record that began the term; for a line about a
record in the log it is the offset of that record. Beats, and history that members write for people, are left out.
"""

from __future__ import annotations

from msgspec import Struct

from pares.core.wire.records import Seat
from pares.sim.engine import SECOND


class Line(Struct, frozen=True):
    """One thing that happened."""

    at: int
    who: str
    what: str
    seat: str = ""
    token: str = ""
    why: str = ""

    def __str__(self) -> str:
        text = f"{self.at / SECOND:10.4f}  {self.who:<10} {self.what:<16} {self.seat:<8} {self.token:<6} {self.why}"
        return text.rstrip()


def seat_name(seat: Seat) -> str:
    return f"{seat[0]}/{seat[1]}"


class Story:
    """Collects lines, when `told` is set. It knows the bases, to write tokens as offsets."""

    def __init__(self, *, told: bool) -> None:
        self.told = told
        self.lines: list[Line] = []
        self._bases: list[int] = []

    def base(self, base: int) -> None:
        self._bases.append(base)

    def token(self, token: int) -> str:
        """#offset of the record that began the term."""
        base = max((b for b in self._bases if b <= token), default=0)
        return f"#{token - base}"

    def add(self, at: int, who: str, what: str, seat: Seat | None = None, token: str = "", why: str = "") -> None:
        self.lines.append(Line(at, who, what, "" if seat is None else seat_name(seat), token, why))

    def text(self) -> list[str]:
        return [str(line) for line in self.lines]
