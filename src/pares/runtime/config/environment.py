"""A member's settings from the environment: for programs whose deployment says where they belong.

    PARES_LEDGER=kafka://kafka:9092/pares PARES_GROUP=pricing PARES_ROLES=AAPL,MSFT PARES_SESSION=2 python pricing.py

Each keyword of `Member` that can be written as a word has a variable; what is called (`barrier`, `ready`, `on_lost`) and the
ledger's `options` stay in the program. Arguments win over variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_origin

from msgspec.structs import fields as fields_of

from pares.core.errors import CapabilityError, ConfigError
from pares.runtime.config.protocols import Protocol, protocol_of
from pares.runtime.config.settings import CONNECT

M = TypeVar("M")
LEDGER: Final = "PARES_LEDGER"


class Variable(NamedTuple):
    """One keyword's."""

    read: Callable[[str], Any]
    """Raises `ValueError` for text that is not of this kind."""
    form: str
    """What may stand there."""


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if "" in names:
        raise ValueError("an empty name")
    return names


def _eligible(text: str) -> str | list[str]:
    return "*" if text == "*" else _names(text)


def _labels(text: str) -> dict[str, str]:
    found = dict(part.split("=", 1) for part in text.split(","))
    return {key.strip(): value.strip() for key, value in found.items()}


def _seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is no number of seconds")
    return value


def _connect(text: str) -> str:
    if text not in CONNECT:
        raise ValueError(text)
    return text


def _flag(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError(text)
    return text == "yes"


def _protocol(text: str) -> Protocol:
    """A name, or a name with settings: neli:T=2,clock_error=0.1"""
    name, colon, settings = text.partition(":")
    found, own = protocol_of(name.strip())
    if not colon:
        return found
    if own is None:
        raise ConfigError("protocol 'claims' has no settings of its own")
    values = _labels(settings)
    known = type(own).__struct_fields__
    unknown = [key for key in values if key not in known]
    if unknown:
        raise ConfigError(f"{unknown[0]!r} is no setting of {found}, which has {', '.join(known)}")
    words = {field.name for field in fields_of(type(own)) if get_origin(field.type) is Literal}
    fields: dict[str, Any] = {key: value if key in words else _seconds(value) for key, value in values.items()}
    return type(own)(**fields)


_SECONDS: Final = Variable(_seconds, "seconds, such as 1.5")
_WHOLE: Final = Variable(int, "a whole number")
_NAMES: Final = Variable(_names, "names with commas between them, such as AAPL,MSFT")
_TEXT: Final = Variable(str, "text")
VARIABLES: Final[dict[str, Variable]] = {
    "group": _TEXT,
    "roles": _NAMES,
    "seats": _WHOLE,
    "name": _TEXT,
    "host": _TEXT,
    "zone": _TEXT,
    "labels": Variable(_labels, "labels such as tier=gold,rack=7"),
    "rank": _WHOLE,
    "weight": Variable(_seconds, "a number"),
    "eligible": Variable(_eligible, "names with commas between them, or * for every role"),
    "session": _SECONDS,
    "overlap": _SECONDS,
    "protocol": Variable(_protocol, "a protocol's name, or one with its settings, such as neli:T=2,clock_error=0.1"),
    "barrier_timeout": _SECONDS,
    "settle": _SECONDS,
    "drift": Variable(_seconds, "a number"),
    "lock_folder": _TEXT,
    "witness": Variable(_flag, "yes or no"),
    "connect": Variable(_connect, "now or background"),
}
"""By keyword of `Member`: the variable is PARES_ and the keyword in capitals."""


def variable_of(keyword: str) -> str:
    return f"PARES_{keyword.upper()}"


class Environment:
    """What the environment says, beside what the program does.

    `ledger`, `given`: as they were given to `from_env`. Raises `ConfigError` for a variable that is empty or can't be read, by
    its name and value, and when neither says which ledger or which group.
    """

    def __init__(self, ledger: object, given: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self.read: dict[str, str] = {}
        """By keyword: what stands in the environment, as far as it counts."""
        self.settings = dict(given)
        for keyword, variable in VARIABLES.items():
            text = environ.get(variable_of(keyword))
            if text is not None and keyword not in given:
                self.settings[keyword] = _value(variable_of(keyword), text, variable)
                self.read[keyword] = text
        self.ledger: Any = environ.get(LEDGER) if ledger is None else ledger
        if self.ledger == "" and ledger is None:
            raise ConfigError(f"{LEDGER} is set, but empty: give it a ledger's URL, or unset it and give ledger=")
        if (
            self.ledger is None
        ):  # and no default, as commands have: each host would be a world of its own, with its own leader
            raise ConfigError(
                f"no ledger: set {LEDGER} to its URL, such as file:///srv/work, or give ledger=; a member has no default, "
                "which would be another one on each host"
            )
        if "group" not in self.settings:
            raise ConfigError(f"no group: set {variable_of('group')} to its name, or give group=")

    def make(self, kind: Callable[..., M]) -> M:
        """One of `kind`, with these settings. An error about a value from the environment names its variable."""
        try:
            return kind(self.ledger, **self.settings)
        except (ConfigError, CapabilityError) as error:
            if not self.read:
                raise
            words = set(re.findall(r"\w+", str(error)))
            keys = [key for key in self.read if key in words] or list(self.read)
            where = ", ".join(f"{variable_of(key)}={self.read[key]!r}" for key in keys)
            raise type(error)(f"{error} (from the environment: {where})") from error


def _value(name: str, text: str, variable: Variable) -> Any:
    if not text.strip():
        raise ConfigError(f"{name} is set, but empty: give it {variable.form}, or unset it")
    try:
        return variable.read(text.strip())
    except (ConfigError, CapabilityError) as error:
        raise ConfigError(f"{name} is {text!r}: {error}") from None
    except ValueError:
        raise ConfigError(f"{name} is {text!r}: give it {variable.form}") from None
