"""The imports among the files of pares, found in their text, without importing anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "src"


class When(IntEnum):
    """When an import takes place. Each comes with those before it."""

    AT_ONCE = 0
    FOR_CHECKERS = 1
    IN_FUNCTIONS = 2


Graph = dict[str, dict[str, When]]
"""For each module what it imports, and when at the earliest."""


def module_of(file: Path, source: Path = SOURCE) -> str:
    parts = file.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _named(node: ast.Import | ast.ImportFrom, package: str, modules: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    base = package.split(".")
    home = ".".join(base[: len(base) - node.level + 1]) if node.level else ""
    home = ".".join(part for part in (home, node.module or "") if part)
    for alias in node.names:
        below = f"{home}.{alias.name}"
        yield below if below in modules else home


def _is_for_checkers(node: ast.If) -> bool:
    return ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def _statements(body: list[ast.stmt], when: When) -> Iterator[tuple[ast.Import | ast.ImportFrom, When]]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, when
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _statements(node.body, When.IN_FUNCTIONS)
        elif isinstance(node, ast.If) and _is_for_checkers(node):
            yield from _statements(node.body, max(when, When.FOR_CHECKERS))
            yield from _statements(node.orelse, when)
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, name, []), when)
            for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
                yield from _statements(part.body, when)


def graph(source: Path = SOURCE) -> Graph:
    """The imports among the modules below `source`."""
    modules = {module_of(file, source): file for file in sorted(source.rglob("*.py"))}
    found: Graph = {}
    for module, file in modules.items():
        package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        edges = found.setdefault(module, {})
        for node, when in _statements(ast.parse(file.read_text()).body, When.AT_ONCE):
            for name in _named(node, package, modules):
                if name in modules and name != module:
                    edges[name] = min(when, edges.get(name, when))
    return found


def circles(imports: Graph, until: When) -> list[list[str]]:
    """The sets of modules of which each reaches each other, by imports up to this sort; the largest first."""
    order: list[str] = []
    seen = set[str]()

    def visit(start: str, edges: Mapping[str, list[str]], into: list[str]) -> None:
        """Adds what is reached and was not seen before, each behind all that it reaches."""
        seen.add(start)
        way = [(start, iter(edges.get(start, ())))]
        while way:
            node, ahead = way[-1]
            step = next((each for each in ahead if each not in seen), None)
            if step is None:
                way.pop()
                into.append(node)
            else:
                seen.add(step)
                way.append((step, iter(edges.get(step, ()))))

    forward = {module: [to for to, when in edges.items() if when <= until] for module, edges in imports.items()}
    backward: dict[str, list[str]] = {}
    for module, edges in forward.items():
        for to in edges:
            backward.setdefault(to, []).append(module)
    for module in forward:
        if module not in seen:
            visit(module, forward, order)
    seen.clear()
    found: list[list[str]] = []
    for module in reversed(order):
        if module not in seen:
            members: list[str] = []
            visit(module, backward, members)
            found.append(sorted(members))
    return sorted((each for each in found if len(each) > 1), key=lambda each: (-len(each), each))
