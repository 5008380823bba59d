"""The state of a fold as bytes, and back: so that a history goes on where it stopped, and reads nothing twice.

Rules, each with what breaks without it:

* All of the state is kept, by walking through it, and not a chosen part of it. [what an audit remembers beside the world,
  such as the last sign of life of each member, is in no snapshot: a fold that went on from one would tell other facts]
* One state has one form: containers in their order, sets sorted. [a batch that is done again would not be the same bytes]
* What is shared stays shared: an object that is met again is written as a reference. [two copies of the members drift apart]
* Only values and the classes of pares come back, by their fields. Nothing is called but constructors of records, so that a
  changed file can make a wrong audit but can't run a program. [pickle runs whatever it is told]
* The fields of every class are written along. A state of other fields is refused (`OtherState`): a reader that finds one folds
  the log anew. [a field that an older version did not have would be missing much later, somewhere else]
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Any, Final

import msgspec

from pares.core.errors import ParesError

FORMAT: Final = 2
"""Rises when states of before would be read wrongly: 2 hashes worlds in another way."""
_OWN: Final = "pares."
_LEAST: Final = -(2**63)
_MOST: Final = 2**64


class OtherState(ParesError):
    """The bytes are the state of a fold of another version of pares, or none at all: fold the log from its beginning."""


def freeze(state: Any) -> bytes:
    """The bytes of an object of pares that holds values, containers and other such objects.

    Equal states that came about in the same order have equal bytes. Raises `TypeError` for what can't be kept: a function, an
    object of another package.
    """
    writer = _Writer()
    tree = writer.node(state)
    classes = [[cls.__module__, cls.__qualname__, list(_fields(cls))] for cls in writer.classes]
    return msgspec.msgpack.encode([FORMAT, classes, tree])


def thaw(data: bytes) -> Any:
    """The object that `freeze` was given, anew. Raises `OtherState`."""
    try:
        form, classes, tree = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise OtherState(f"these bytes are no state of a fold: {error}") from error
    if form != FORMAT:
        raise OtherState(f"the state of the fold is of format {form}, and this version of pares reads {FORMAT}")
    return _Reader([_class(*known) for known in classes]).value(tree)


def _class(module: str, name: str, fields: list[str]) -> type:
    found: Any = None
    if module.startswith(_OWN):
        try:
            found = import_module(module)
        except ImportError:
            found = None
        for part in name.split("."):
            found = vars(found).get(part) if found is not None else None
    if not isinstance(found, type) or list(_fields(found)) != fields:
        raise OtherState(f"the state of the fold has a {module}.{name} that this version of pares does not know")
    return found


def _fields(cls: type) -> Iterator[str]:
    """The fields of a class, as far as they are known without an object of it."""
    if issubclass(cls, msgspec.Struct):
        yield from cls.__struct_fields__
    elif issubclass(cls, tuple):
        yield from vars(cls).get("_fields", ())
    elif not issubclass(cls, Enum):
        for base in reversed(cls.__mro__):
            slots = vars(base).get("__slots__", ())
            yield from (slots,) if isinstance(slots, str) else slots


class _Writer:
    def __init__(self) -> None:
        self.classes: dict[type, int] = {}
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []
        """What was met, so that no other object gets its id meanwhile."""

    def node(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, float)) or type(value) in (str, bytes):
            return value
        if type(value) is int:
            return value if _LEAST <= value < _MOST else ["i", str(value)]
        if isinstance(value, Enum):
            return ["e", self._number(type(value)), value.name]
        if type(value) is tuple:
            return ["t", *map(self.node, value)]
        if isinstance(value, frozenset):
            return ["f", *self._sorted(value)]
        if isinstance(value, tuple):
            return ["n", self._number(type(value)), *map(self.node, value)]
        if id(value) in self._seen:
            return ["r", self._seen[id(value)]]
        self._seen[id(value)] = len(self._kept)
        self._kept.append(value)
        return self._shared(value)

    def _shared(self, value: Any) -> Any:
        if type(value) is list:
            return ["l", *map(self.node, value)]
        if type(value) in (dict, Counter):
            pairs = [self.node(part) for pair in value.items() for part in pair]
            return ["d" if type(value) is dict else "c", *pairs]
        if type(value) is set:
            return ["s", *self._sorted(value)]
        if type(value) is deque:
            return ["q", value.maxlen, *map(self.node, value)]
        cls = type(value)
        if not cls.__module__.startswith(_OWN) or isinstance(value, (dict, list, set, type)):
            raise TypeError(f"a {cls.__module__}.{cls.__qualname__} is no state that can be kept")
        if isinstance(value, msgspec.Struct):
            return ["m", self._number(cls), *(self.node(getattr(value, name)) for name in cls.__struct_fields__)]
        held = {name: getattr(value, name) for name in _fields(cls) if hasattr(value, name)}
        held |= getattr(value, "__dict__", {})
        return ["o", self._number(cls), *(part for name, one in held.items() for part in (name, self.node(one)))]

    def _sorted(self, values: set[Any] | frozenset[Any]) -> list[Any]:
        met = len(self._kept)
        nodes = sorted(map(self.node, values), key=msgspec.msgpack.encode)
        if len(self._kept) > met:
            # Which of them is met first is chance, so the references to them would be, too.
            raise TypeError("a set of objects is no state that can be kept")
        return nodes

    def _number(self, cls: type) -> int:
        return self.classes.setdefault(cls, len(self.classes))


class _Reader:
    def __init__(self, classes: list[type]) -> None:
        self._classes = classes
        self._met: list[Any] = []

    def value(self, node: Any) -> Any:
        if type(node) is not list:
            return node
        tag, rest = node[0], node[1:]
        if tag in _VALUES:
            return _VALUES[tag](self, rest)
        if tag == "r":
            return self._met[rest[0]]
        place = len(self._met)
        self._met.append(None)
        if tag == "m":
            cls: Any = self._classes[rest[0]]
            values = map(self.value, rest[1:])
            self._met[place] = cls(**dict(zip(cls.__struct_fields__, values, strict=True)))
        elif tag == "o":
            made = self._met[place] = object.__new__(self._classes[rest[0]])
            for at in range(1, len(rest), 2):
                object.__setattr__(made, rest[at], self.value(rest[at + 1]))
        else:
            self._container(tag, rest, place)
        return self._met[place]

    def _container(self, tag: str, rest: list[Any], place: int) -> None:
        made: Any
        if tag == "l":
            made = self._met[place] = list[Any]()
            made.extend(map(self.value, rest))
        elif tag in "dc":
            made = self._met[place] = dict[Any, Any]() if tag == "d" else Counter[Any]()
            for at in range(0, len(rest), 2):
                key = self.value(rest[at])
                made[key] = self.value(rest[at + 1])
        elif tag == "s":
            made = self._met[place] = set[Any]()
            made.update(map(self.value, rest))
        else:
            made = self._met[place] = deque[Any](maxlen=rest[0])
            made.extend(map(self.value, rest[1:]))

    def member(self, rest: list[Any]) -> Any:
        """One of an enumeration."""
        cls: Any = self._classes[rest[0]]
        return cls[rest[1]]

    def named(self, rest: list[Any]) -> Any:
        """A tuple with names."""
        return self._classes[rest[0]](*map(self.value, rest[1:]))


_VALUES: Final[dict[str, Callable[[_Reader, list[Any]], Any]]] = {
    "i": lambda reader, rest: int(rest[0]),
    "e": lambda reader, rest: reader.member(rest),
    "t": lambda reader, rest: tuple(map(reader.value, rest)),
    "f": lambda reader, rest: frozenset(map(reader.value, rest)),
    "n": lambda reader, rest: reader.named(rest),
}
