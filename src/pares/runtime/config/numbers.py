"""Numbers given by users, checked: each error names the value, the limit and what to do."""

from __future__ import annotations

from pares.core.errors import ConfigError


def seconds_to_ms(what: str, seconds: object, low: float, high: float) -> int:
    """Seconds as the whole milliseconds that records carry."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not low <= seconds <= high:
        raise ConfigError(f"{what} is {seconds!r}: give seconds from {low:g} to {high:g}")
    return round(seconds * 1000)


def number(what: str, value: object, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ConfigError(f"{what} is {value!r}: give a number from {low:g} to {high:g}")
    return float(value)


def whole(what: str, value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(f"{what} is {value!r}: give a whole number from {low} to {high}")
    return value


def one_of(what: str, value: object, known: tuple[str, ...]) -> str:
    if value not in known:
        *first, last = map(repr, known)
        raise ConfigError(f"{what} is {value!r}: give {', '.join(first)} or {last}")
    return str(value)
