"""A URL taken apart: what a ledger is opened with. Whatever in it is not understood is an error."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from pares.core.errors import ConfigError

_HOSTS: Final = re.compile(
    r"[^:]*://(?:[^/?#@:,]*(?::\d+)?|\[[^]/?#@]*\](?::\d+)?)(?:,[^/?#@:,]+(?::\d+)?)*(?=[/?#]|$)"
)
"""A URL up to the end of its hosts, if nothing among them could be a user or a password."""
_PATHS: Final = ("sqlite", "file", "memory")
"""Schemes whose URL is a path or a name, in which a @ means nothing."""
_CONFIG: Final = re.compile(r"(?<=[?&])config=[^&]*")
_READONLY: Final = re.compile(r"([?&])readonly=1(&|(?![\w%]))")
_USER: Final = re.compile(r":(//)?.*@", re.DOTALL)
_SECRET: Final = re.compile(
    r"([?&;][^=&#]*(?:pass|pwd|secret|token|key|jaas|cred|auth|sasl|ssl)[^=&#]*=)[^&]+", re.IGNORECASE
)


def without_readonly(text: str) -> str:
    """A text for people, with no `readonly=1` in its URLs: that only says how a command that looks on has opened a ledger."""
    return _READONLY.sub(lambda found: found[1] if found[2] else "", text)


def shown(url: str) -> str:
    """The URL as errors may repeat it: without a user or password, and without the values of options that sound like secrets.
    No ledger's URL may have these, but a caller may have given them all the same."""
    if url.partition(":")[0].lower() in _PATHS:
        user = _HOSTS.match(url) is None
    else:
        user = "@" in _CONFIG.sub("", url)
    if user:
        url = _USER.sub(r":\1***@", url, count=1)
    return _SECRET.sub(r"\1***", url)


@dataclass(frozen=True, slots=True)
class Address:
    """A URL taken apart."""

    url: str = field(repr=False)
    scheme: str
    host: str = field(repr=False)
    """What stands between `//` and the next `/`, as it was given."""
    path: str
    """From that `/` on, with %XX decoded."""
    query: Mapping[str, str] = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL as errors may repeat it."""
        return shown(self.url)


class Options:
    """The options of one ledger, taken one by one; an option that was not taken is an error."""

    def __init__(self, url: str, values: Mapping[str, object]) -> None:
        self._url = shown(url)
        self._left = dict(values)
        self._all = dict(values)
        self._known: list[str] = []

    def take(self, name: str) -> object:
        """The option's value as given (text, if it stood in the URL), None if it wasn't."""
        self._known.append(name)
        return self._left.pop(name, None)

    def seconds(self, name: str, default: float | None, *, none: bool = False) -> float | None:
        """A number of seconds above 0; with `none`, also "none" for None."""
        value = self.take(name)
        if value is None:
            return default
        if none and value == "none":
            return None
        try:
            number = float(str(value))
        except ValueError:
            number = 0.0
        if isinstance(value, bool) or not 0 < number < float("inf"):
            other = ', or "none"' if none else ""
            raise ConfigError(f"{self._url}: {name}={value} is no number of seconds above 0{other}")
        return number

    def whole(self, name: str, least: int = 1) -> int | None:
        """A whole number of at least `least`; None if not given."""
        value = self.take(name)
        if value is None:
            return None
        text = str(value)
        if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or int(text) < least:
            raise ConfigError(f"{self._url}: {name}={value} is no whole number of at least {least}")
        return int(text)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of `choices`; the first is the default."""
        value = self.take(name)
        if value is None:
            return choices[0]
        if value not in choices:
            raise ConfigError(f"{self._url}: {name}={value} is not one of {', '.join(choices)}")
        return str(value)

    def flag(self, name: str) -> bool:
        """True or False; in a URL 1 or 0, true or false, yes or no."""
        value = self.take(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        text = str(value).lower()
        if text not in ("1", "0", "true", "false", "yes", "no"):
            raise ConfigError(f"{self._url}: {name}={value} is neither 1 nor 0")
        return text in ("1", "true", "yes")

    def query(self, leave_out: tuple[str, ...] = (), replace: Mapping[str, str] = MappingProxyType({})) -> str:
        """All options as the query of a URL, `?` included; empty if there are none.

        `leave_out` names those that must not stand in a URL, `replace` says others' values.
        """
        texts = {
            name: replace.get(name, str(int(value) if isinstance(value, bool) else value))
            for name, value in self._all.items()
            if name not in leave_out
        }
        return f"?{urlencode(texts)}" if texts else ""

    def finish(self) -> None:
        """Raise if an option is left that was not taken. `partition` may be left: it is for the users of the ledger."""
        self._left.pop("partition", None)
        if self._left:
            unknown = ", ".join(sorted(self._left))
            client = ""
            if "options" in self._known:
                client = (
                    "; client settings go into config=FILE, or one level down: Member(..., options={'options': {...}})"
                )
            raise ConfigError(
                f"{self._url}: unknown option {unknown}; this ledger knows "
                f"{', '.join(sorted({*self._known, 'partition'}))}{client}"
            )
