"""The oracle of public names: what is reachable by a documented path, with signatures, members and bases.

It names no private module, so moving a file changes nothing in it. What a class inherits stands with it, whoever it is from.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args

import msgspec

from .spelling import Spelling, listed, set_by

MODULES: Final[dict[str, tuple[str, ...]]] = {
    "pares": (),
    "pares.aio": ("Member", "Term"),
    "pares.fence": (),
    "pares.metrics": (),
    "pares.ledger": (),
    "pares.dev": (),
    "pares.testing": (),
    "pares.testing.aio": ("FakeMember",),
    "pares.testing.plugin": ("pares_member", "pares_stage"),
    "pares.frameworks.apscheduler": ("Jobs",),
    "pares.frameworks.asgi": ("Lifespan",),
    "pares.frameworks.celery": ("HEADER", "MemberInWorkers", "send_token", "token_of"),
    "pares.frameworks.django": ("LeaderCommand",),
    "pares.frameworks.service": ("serve",),
    "pares.cli": ("main",),
}
WITH_SPARK: Final[dict[str, tuple[str, ...]]] = {
    "pares.spark": (),
    "pares.spark.audit": ("audit", "audit_all"),
    "pares.spark.session": ("session",),
}
"""The paths that documents name; these need Spark's Python package. With no names after it, a module says itself what it
offers, by `__all__`."""

NAMELESS: Final = (
    "Background",
    "HealthApp",
    "Began",
    "DidChanged",
    "MemberJoined",
    "MemberLeft",
    "PauseChanged",
    "RoleChanged",
    "SeatChanged",
)
GIVEN_OUT: Final = (
    "pares.Term",
    "pares.aio.Term",
    "pares.testing.Actor",
    "pares.fence.Transaction",
    "Background",
    "HealthApp",
)
"""Classes that pares makes and its users don't: how they are made is no matter of theirs."""

OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in (
        *("aenter", "aexit", "aiter", "anext", "await", "bool", "call", "contains", "enter", "exit", "getitem", "iter"),
        *("le", "len", "lt", "next", "setitem"),
    )
)


def imported(path: str) -> Any:
    """The module that a documented path leads to; `pares.aio` is an attribute and need not be a file of that name."""
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as missing:
        if missing.name != path:
            raise
    home, _, name = path.rpartition(".")
    return getattr(imported(home), name)


def public(modules: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What stands at each public path of these modules."""
    found: dict[str, Any] = {}
    for path, names in modules.items():
        module = imported(path)
        for name in names or sorted(module.__all__):
            found[f"{path}.{name}"] = getattr(module, name)
    return found


def _own_function(thing: Any) -> Any:
    """The function in a fixture of pytest, and in whatever else wraps one."""
    return inspect.unwrap(thing) if hasattr(thing, "__wrapped__") else thing


class Surface:
    def __init__(self, modules: Mapping[str, Sequence[str]], nameless: Sequence[str] = ()) -> None:
        self.found = public(modules)
        self.nameless = nameless
        names: dict[int, str] = {}
        everything = self.found if modules is MODULES else {**public(MODULES), **self.found}
        for path, thing in everything.items():
            if isinstance(thing, type) or callable(thing):
                names.setdefault(id(thing), path)
        self.spelling = Spelling(names)
        for path, thing in everything.items():
            if isinstance(thing, types.UnionType):
                self.spelling.unions[self.spelling.type(thing, "pares")] = path

    def lines(self) -> Iterator[str]:
        yield "# Public names, their signatures, members and bases. Written by `python -m tests.oracles --record`."
        for path, thing in self.found.items():
            yield ""
            first = self.spelling.public.get(id(thing), path)
            if isinstance(thing, types.ModuleType):
                yield f"{path}: a module"
            elif first != path:
                yield f"{path}: {first}"
            else:
                yield from self._described(path, thing)
        met = dict(self.spelling.unnamed)
        if self.nameless:
            yield "\n# Classes without a public name, which public signatures give out or take, and documents tell of."
        for name in self.nameless:
            yield ""
            yield from self._class(name, met[name])
        if left := sorted(met.keys() - set(self.nameless)):
            yield "\n# Others of these, which no document tells of."
            yield from left

    def _described(self, path: str, thing: Any) -> Iterator[str]:
        if isinstance(thing, type):
            yield from self._class(path, thing)
        elif callable(thing) and (inspect.isroutine(_own_function(thing)) or hasattr(thing, "__wrapped__")):
            yield self._function(path, _own_function(thing), bound=False)
        elif isinstance(thing, str | int | float):
            yield f"{path}: {type(thing).__name__}" + ("" if path.endswith("__version__") else f" = {thing!r}")
        else:
            parts = " | ".join(self.spelling.type(each, "pares") for each in get_args(thing))
            yield f"{path}: one of {parts}"

    def _function(self, name: str, function: Any, *, bound: bool) -> str:
        word = "async def" if inspect.iscoroutinefunction(function) else "def"
        return f"{word} {name}{self.spelling.signature(function, bound=bound)}"

    def _bases(self, kind: type) -> str:
        """The nearest ancestors that have a public name, or are another library's."""
        shown: list[type] = []

        def gather(bases: tuple[type, ...]) -> None:
            for base in bases:
                ours = base.__module__ == "pares" or base.__module__.startswith("pares.")
                if ours and id(base) not in self.spelling.public:
                    gather(base.__bases__)
                elif base is not object and base not in shown:
                    shown.append(base)

        gather(kind.__bases__)
        return ", ".join(self.spelling.name(base) for base in shown)

    def _class(self, path: str, kind: type) -> Iterator[str]:
        bases = self._bases(kind)
        yield f"class {path}({bases})" if bases else f"class {path}"
        if path not in GIVEN_OUT:
            yield f"    made by {self._made_by(kind)}"
        members: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            if base.__module__ != "pares" and not base.__module__.startswith("pares."):
                continue
            for name, given in _annotated(base).items():
                if not name.startswith("_"):
                    members[name] = f"{name}: {self.spelling.type(given, base.__module__)}"
            for name, given in set_by(base).items():
                if given:
                    members[name] = f"{name}: {self.spelling.type(given, base.__module__)}"
                else:
                    members.setdefault(name, f"{name}: set when made")
            for name, value in vars(base).items():
                if name in OPERATORS or not name.startswith("_"):
                    told = self._member(name, value)
                    if told is None:
                        continue
                    members[name] = told
        yield from (f"    {members[name]}" for name in sorted(members))

    def _member(self, name: str, value: Any) -> str | None:
        if isinstance(value, property):
            settable = " (can be set)" if value.fset else ""
            ends = self.spelling.signature(value.fget, bound=True).partition(" -> ")[2]
            return f"property {name}: {ends}{settable}"
        if isinstance(value, functools.cached_property):
            return f"property {name}: {self.spelling.signature(value.func, bound=True).partition(' -> ')[2]}"
        if isinstance(value, classmethod | staticmethod):
            word = type(value).__name__
            return f"{word} {self._function(name, value.__func__, bound=word == 'classmethod')}"
        if inspect.isfunction(value):
            plain = inspect.unwrap(value)
            written = plain.__module__.startswith("pares") and plain.__name__ in plain.__code__.co_name
            if value.__qualname__.startswith("__create_fn__") or not written:
                return None  # made by a dataclass or the like
            return self._function(name, value, bound=True)
        if isinstance(value, bool | int | float | str):
            return f"{name} = {value!r}"
        return None

    def _made_by(self, kind: type) -> str:
        if issubclass(kind, msgspec.Struct):
            return self._fields(kind)
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return self._tuple(kind)
        making = kind.__init__
        if getattr(kind, "_is_protocol", False):
            return "its implementations"
        if not inspect.isfunction(making):
            return "()" if making is object.__init__ else "its base"
        if "__dataclass_fields__" in vars(kind) and not making.__code__.co_filename.endswith(".py"):
            return self._fields(kind)
        if making.__module__.partition(".")[0] != "pares":
            return "its base"  # another package's, which may say it otherwise in another version
        return self.spelling.signature(making, bound=True).partition(" -> ")[0]

    def _tuple(self, kind: Any) -> str:
        module, given = kind.__module__, kind._field_defaults
        parts = [
            f"{name}: {self.spelling.type(told, module)}"
            + (f" = {self.spelling.default(given[name])}" if name in given else "")
            for name, told in kind.__annotations__.items()
        ]
        return listed(parts)

    def _fields(self, kind: type) -> str:
        homes = {name: base for base in reversed(kind.__mro__) for name in _annotated(base)}
        parts: list[str] = []
        keywords = False
        fields: Any = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else dataclasses.fields(kind)  # pyright: ignore
        missing = (msgspec.NODEFAULT, dataclasses.MISSING)
        for field in fields:
            base = homes[field.name]
            only = getattr(field, "kw_only", False) or (
                issubclass(kind, msgspec.Struct) and "kw_only=True" in _header(base)
            )
            if only and not keywords:
                keywords = True
                parts.append("*")
            text = f"{field.name}: {self.spelling.type(_annotated(base)[field.name], base.__module__)}"
            if field.default not in missing:
                text += f" = {self.spelling.default(field.default)}"
            elif field.default_factory not in missing:
                text += f" = {field.default_factory()!r}"
            parts.append(text)
        return listed(parts)


def _header(kind: type) -> str:
    return inspect.getsource(kind).partition(":\n")[0]


def _annotated(kind: type) -> dict[str, Any]:
    return dict(inspect.get_annotations(kind))


@functools.cache
def surface() -> str:
    """The record: one text, in which a difference is a line."""
    return "\n".join(Surface(MODULES, NAMELESS).lines()) + "\n"


def surface_with_spark() -> str:
    return "\n".join(Surface(WITH_SPARK).lines()) + "\n"
