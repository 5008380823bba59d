"""How a promise says that it was broken."""

from __future__ import annotations


class Broken(Exception):
    """A promise was broken."""

    def __init__(self, promise: str, at: int, what: str) -> None:
        super().__init__(f"{promise}: {what} (at {at / 1e9:.4f} s)")
        self.promise = promise
        self.at = at
        self.what = what
