"""The knobs of a simulated history as people read them: a few short lines. `--trace SEED --json` has them as they are."""

from __future__ import annotations

import json
import textwrap
from typing import Any, Final

WIDTH: Final = 110
NANOSECONDS: Final = 100_000
"""Whole numbers from here on are nanoseconds: a tenth of a millisecond is the shortest time that any knob has."""
_UNITS: Final = {"_ms": "ms", "_s": "s"}


def knob_lines(knobs: str) -> list[str]:
    """Of the knobs' own text, which is JSON: what is set, then what is off."""
    found: dict[str, Any] = json.loads(knobs)
    plain, groups, off = list[str](), list[str](), list[str]()
    for name, value in found.items():
        if name == "seed":
            continue
        if isinstance(value, dict):
            inner = _group(value)
            groups += [f"{_name(name)}: {inner}"] if inner else []
            off += [] if inner else [_name(name)]
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            alike = all(each == value[0] for each in value)
            for place, each in enumerate(value[:1] if alike else value):
                groups.append(f"{_name(name)}{'' if alike else f' {place}'}: {_group(each)}")
        elif _is_off(value):
            off.append(_name(name))
        else:
            plain.append(_said(name, value))
    lines = [", ".join(plain), *groups, *([f"off or 0: {', '.join(off)}"] if off else [])]
    return [
        line for text in lines for line in textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    ]


def _group(value: dict[str, Any]) -> str:
    return ", ".join(_said(key, each) for key, each in value.items() if not _is_off(each))


def _is_off(value: Any) -> bool:
    return not value or (isinstance(value, list) and not any(value))


def _name(key: str) -> str:
    for ending in _UNITS:
        key = key.removesuffix(ending)
    return key.replace("_", " ")


def _said(key: str, value: Any) -> str:
    if value is True:
        return _name(key)
    unit = next((unit for ending, unit in _UNITS.items() if key.endswith(ending)), "")
    if isinstance(value, list):
        times = all(isinstance(each, int) for each in value) and max(value) >= NANOSECONDS
        if times:
            value, unit = [each / 1e6 for each in value], "ms"
        if times and len(value) == 2:
            text = f"{_number(value[0])} to {_number(value[1])}" if value[0] != value[1] else _number(value[0])
        else:
            text = " ".join(map(_number, value))
    elif isinstance(value, int) and value >= NANOSECONDS:
        text, unit = _number(value / 1e6), "ms"
    else:
        text = _number(value)
    return f"{_name(key)} {text}{f' {unit}' if unit else ''}"


def _number(value: Any) -> str:
    if isinstance(value, list):
        return f"({' '.join(map(_number, value))})"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)
