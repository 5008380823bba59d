"""Buses for the tests, several that reach each other."""

from collections.abc import Callable

from pares.ledger import Bus


class Buses:
    """Buses that reach each other, and what belongs to one, from the ledger up."""

    def __init__(self, make: Callable[[], tuple[Bus, Callable[[], None]]]) -> None:
        self._make = make
        self._close: list[Callable[[], None]] = []

    def new(self) -> Bus:
        bus, close = self._make()
        self._close.append(close)
        return bus

    def close(self) -> None:
        for close in self._close:
            close()
