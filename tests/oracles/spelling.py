"""How a signature is spelled in the record: by public names, whatever file a thing is defined in.

Annotations are evaluated where they were written, with what a module imports for type checkers only. So an alias may change
without a trace, and the name under which a module imports another. What pares has no public name for is spelled by its bare
name; what it takes from other libraries by the name under which that is imported.
"""

from __future__ import annotations

import ast
import collections.abc
import enum
import importlib
import importlib.util
import inspect
import sys
import textwrap
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

REFERENCE: Final = (typing.ForwardRef, str)
WIDE: Final = 80


@cache
def _outside(name: str) -> type:
    """Stands for a name of a library that only type checkers import."""
    module, _, last = name.rpartition(".")
    body = {"__module__": module, "__class_getitem__": classmethod(types.GenericAlias)}
    return type(last, (), body)


class _Library:
    """Stands for a library that only type checkers import."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> type:
        return _outside(f"{self._name}.{name}")


def _is_foreign(module: str) -> bool:
    root = module.partition(".")[0]
    return root != "pares" and root not in sys.stdlib_module_names


def _imported(node: ast.Import | ast.ImportFrom, package: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for alias in node.names:
        if isinstance(node, ast.Import):
            first = alias.asname or alias.name.partition(".")[0]
            found[first] = _Library(alias.name) if _is_foreign(alias.name) else importlib.import_module(alias.name)
            continue
        home = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
        if _is_foreign(home):
            found[alias.asname or alias.name] = _outside(f"{home}.{alias.name}")
            continue
        module = importlib.import_module(home)
        if not hasattr(module, alias.name) and alias.name in names_in(home):
            found[alias.asname or alias.name] = names_in(home)[alias.name]
            continue
        if not hasattr(module, alias.name):
            importlib.import_module(f"{home}.{alias.name}")
        found[alias.asname or alias.name] = getattr(module, alias.name)
    return found


def _for_checkers(body: list[ast.stmt]) -> list[ast.If]:
    return [node for node in body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]


@cache
def names_in(module: str) -> dict[str, Any]:
    """All names of a module, with those that it imports for type checkers only."""
    found = sys.modules[module]
    names = dict(vars(found))
    if module != "pares" and not module.startswith("pares."):
        return names
    for block in _for_checkers(ast.parse(inspect.getsource(found)).body):
        for node in block.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= _imported(node, found.__package__ or "")
            else:
                exec(compile(ast.Module([node], []), module, "exec"), names)
    return names


def listed(parts: list[str]) -> str:
    """Parameters between brackets: each on a line of its own where they are many, so that a difference is one line."""
    line = f"({', '.join(parts)})"
    if len(line) <= WIDE and "\n" not in line:
        return line
    return "(" + "".join(f"\n        {part}," for part in parts) + "\n    )"


class Spelling:
    """Spells types and signatures. `public`: the public name of each thing that has one, by its identity.

    `unnamed` gathers the classes of pares that were met and have no public name: what they have is public all the same.
    """

    def __init__(self, public: Mapping[int, str]) -> None:
        self.public = public
        self.unions: dict[str, str] = {}
        """The public names of unions, by what they are the union of."""
        self.unnamed: dict[str, type] = {}

    def name(self, thing: Any) -> str:
        if found := self.public.get(id(thing)):
            return found
        module, name = getattr(thing, "__module__", "") or "", getattr(thing, "__qualname__", None) or thing.__name__
        if module in ("builtins", ""):
            return name
        if module == "pares" or module.startswith("pares."):
            if isinstance(thing, type):
                self.unnamed.setdefault(name, thing)
            return name
        parts = [part for part in module.split(".") if not part.startswith("_")] or [module.lstrip("_")]
        return ".".join([*parts, name])

    def type(self, kind: Any, module: str) -> str:
        """`kind` is an annotation, evaluated or not, that was written in `module`."""
        if isinstance(kind, REFERENCE):
            text = kind if isinstance(kind, str) else kind.__forward_arg__
            module = getattr(kind, "__forward_module__", None) or module
            return self.type(eval(text, names_in(module)), module)
        if kind is None or kind is type(None):
            return "None"
        if kind is Ellipsis:
            return "..."
        if isinstance(kind, list):
            return "[" + ", ".join(self.type(each, module) for each in kind) + "]"
        if isinstance(kind, typing.TypeVar | typing.ParamSpec):
            return kind.__name__
        if isinstance(kind, typing.ParamSpecArgs | typing.ParamSpecKwargs):
            return str(kind)
        origin = typing.get_origin(kind)
        if origin is None:
            return self._special(kind)
        if origin in (typing.Union, types.UnionType):
            text = " | ".join(self.type(each, module) for each in typing.get_args(kind))
            return self.unions.get(text, text)
        if origin is typing.Literal:
            return "Literal[" + ", ".join(map(repr, typing.get_args(kind))) + "]"
        if origin is typing.Annotated:
            return self.type(typing.get_args(kind)[0], module)
        if origin is typing.Unpack:
            return self._unpacked(typing.get_args(kind)[0])
        args = typing.get_args(kind)
        if origin is collections.abc.Callable and len(args) == 2:
            return f"Callable[{self.type(args[0], module)}, {self.type(args[1], module)}]"
        return f"{self._special(origin)}[{', '.join(self.type(each, module) for each in args)}]"

    def _special(self, kind: Any) -> str:
        module = getattr(kind, "__module__", "")
        if module == "typing":
            return str(kind).removeprefix("typing.")
        if module == "collections.abc":
            return kind.__name__
        return self.name(kind)

    def _unpacked(self, kind: Any) -> str:
        if not typing.is_typeddict(kind):
            return f"Unpack[{self.type(kind, kind.__module__)}]"
        fields = {name: self.type(given, kind.__module__) for name, given in kind.__annotations__.items()}
        required = kind.__required_keys__
        each = [f"\n            {name}{'' if name in required else '?'}: {fields[name]}," for name in sorted(fields)]
        return f"Unpack[{''.join(each)}\n        ]"

    def default(self, value: Any) -> str:
        if isinstance(value, enum.Enum):
            return f"{self.name(type(value))}.{value.name}"
        if isinstance(value, bool | int | float | str | bytes | None):
            return repr(value)
        if isinstance(value, tuple):
            inner = ", ".join(self.default(each) for each in value)
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if hasattr(value, "__qualname__"):
            return self.name(value)
        if type(value).__module__.startswith("pares"):
            return f"<a {self.name(type(value))}>"
        return repr(value)

    def signature(self, function: Any, *, bound: bool) -> str:
        """`(self, ...) -> ...` without the first parameter if `bound`."""
        plain = inspect.unwrap(function)
        module = plain.__module__
        found = inspect.signature(plain)
        parameters = list(found.parameters.values())[1 if bound else 0 :]
        parts: list[str] = []
        star = False
        for index, each in enumerate(parameters):
            if each.kind is each.VAR_POSITIONAL:
                star = True
            elif each.kind is each.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            elif index and parameters[index - 1].kind is each.POSITIONAL_ONLY and each.kind is not each.POSITIONAL_ONLY:
                parts.append("/")
            before = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
            text = f"{before}{each.name}"
            if each.annotation is not each.empty:
                text += f": {self.type(each.annotation, module)}"
            if each.default is not each.empty:
                text += f" = {self.default(each.default)}"
            parts.append(text)
        if parameters and parameters[-1].kind is inspect.Parameter.POSITIONAL_ONLY:
            parts.append("/")
        ends = "" if found.return_annotation is found.empty else f" -> {self.type(found.return_annotation, module)}"
        return listed(parts) + ends


def set_by(kind: type) -> dict[str, str]:
    """The public attributes that the methods of a class set on `self`, each with its annotation or ""."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    except (OSError, TypeError):
        return {}
    found: dict[str, str] = {}
    (body,) = tree.body
    assert isinstance(body, ast.ClassDef)
    for method in body.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) or not method.args.args:
            continue
        for node in ast.walk(method):
            targets = (
                node.targets
                if isinstance(node, ast.Assign)
                else [node.target]
                if isinstance(node, ast.AnnAssign)
                else []
            )
            flat = [each for target in targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])]
            for target in flat:
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == method.args.args[0].arg
                    and not target.attr.startswith("_")
                ):
                    given = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else ""
                    found.setdefault(target.attr, given)
    return found
