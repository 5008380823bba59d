"""The checks: each finds what should not be, as lines of text."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final

from .imports import ROOT, SOURCE, Graph, When, circles, graph

LINES: Final = 450
FILES: Final = 15
DEEP: Final = 3
PROTOCOLS: Final = frozenset({"claims", "nele", "neli", "fast-neli", "allcall"})
SCHEMES: Final = frozenset(
    {
        *("memory", "file", "sqlite", "kafka", "nats", "kinesis", "postgresql", "postgres"),
        *("redis", "rediss", "rabbitmq-stream", "rabbitmq-stream+tls", "pulsar", "pulsar+ssl"),
    }
)
"""All that the registry of ledgers has, and what else people call PostgreSQL."""
CAPABILITIES: Final = frozenset(
    {
        *("append_each", "broker_time", "changed", "checks", "epoch", "one_bell", "readonly", "reassignment_bound"),
        *("claims", "has_topic", "url", "retention", "bell", "place", "kind", "topic"),
    }
)
"""What a ledger, a bus or a loop may have or not: to be declared, and not found by asking."""
OPEN: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Public names of tuples with names, for all their underscore."""
REGISTRIES: Final = frozenset({"protocols.py", "registry.py"})
"""Files whose matter the names of protocols and of ledgers are."""


@cache
def _files(folder: Path) -> dict[Path, str]:
    return {file: file.read_text() for file in sorted(folder.rglob("*.py"))}


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _trees(folder: Path, pattern: str) -> dict[Path, ast.Module]:
    """The files whose text has the pattern at all: parsing all of them takes seconds."""
    return {file: _parsed(text) for file, text in _files(folder).items() if re.search(pattern, text)}


@cache
def _imports() -> Graph:
    return graph()


def _counted(found: Iterable[str]) -> list[str]:
    """Each once, with how often it was found where that is more than once."""
    return [line if times == 1 else f"{line} ({times} times)" for line, times in sorted(Counter(found).items())]


def _circles(until: When) -> list[str]:
    imports = _imports()
    nearer = [set(each) for before in When if before < until for each in circles(imports, before)]
    return [" ".join(each) for each in circles(imports, until) if set(each) not in nearer]


def long_files() -> list[str]:
    return [_name(file) for file, text in _files(SOURCE).items() if len(text.splitlines()) > LINES]


def full_folders() -> list[str]:
    counts = Counter(file.parent for file in SOURCE.rglob("*") if file.is_file() and file.parent.name != "__pycache__")
    return [f"{_name(folder)}: {count} files" for folder, count in sorted(counts.items()) if count > FILES]


def named_after_their_folder() -> list[str]:
    return [
        _name(file)
        for file in sorted(SOURCE.rglob("*.py"))
        if file.stem == file.parent.name or file.stem.startswith(f"{file.parent.name}_")
    ]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names and node.args:
            yield node


def casts_to_a_loop() -> list[str]:
    found: list[str] = []
    for file, tree in _trees(SOURCE, r"\bcast\(").items():
        for call in _calls(tree, "cast"):
            text = ast.unparse(call.args[0]).strip("'\"")
            if text.rpartition(".")[2].endswith("Loop"):
                found.append(f"{_name(file)}: cast to {text}")
    return _counted(found)


def capabilities_by_name() -> list[str]:
    found: list[str] = []
    for file, tree in _trees(SOURCE, r"(getattr|hasattr)\(").items():
        for call in _calls(tree, "getattr", "hasattr"):
            asked = call.args[1] if len(call.args) > 1 else None
            if isinstance(asked, ast.Constant) and asked.value in CAPABILITIES:
                found.append(f"{_name(file)}: {asked.value}")
    return _counted(found)


def _compared(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """What is compared with which text: by ==, !=, in, a set or a tuple of texts, startswith, match."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for side in sides:
                others = [each for each in sides if each is not side]
                parts = side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]
                for part in parts:
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        yield others[0], part.value
        elif isinstance(node, ast.Match):
            for case in node.cases:
                for part in ast.walk(case.pattern):
                    if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant):
                        yield node.subject, str(part.value.value)
    for call in _calls(tree, "startswith"):
        for part in ast.walk(call.args[0]):
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield call.func, part.value.partition(":")[0]


def protocols_by_name() -> list[str]:
    return _counted(
        f"{_name(file)}: {said}"
        for file, tree in _trees(SOURCE, r"[\"'](claims|nele|neli|fast-neli|allcall)[\"']").items()
        if file.name not in REGISTRIES
        for _, said in _compared(tree)
        if said in PROTOCOLS
    )


def ledgers_by_scheme() -> list[str]:
    words = "|".join(map(re.escape, sorted(SCHEMES)))
    return _counted(
        f"{_name(file)}: {said}"
        for file, tree in _trees(SOURCE, rf"[\"']({words})[\"':]").items()
        if file.name not in REGISTRIES and not _is_ledgers_own(file)
        for what, said in _compared(tree)
        if said in SCHEMES and not isinstance(what, ast.Constant)
    )


def _is_ledgers_own(file: Path) -> bool:
    """A ledger's own files: `ledger/memory.py`, `ledger/kafka/tail.py`."""
    inside = file.relative_to(SOURCE / "pares").with_suffix("").parts
    return inside[0] == "ledger" and inside[1] in own_modules()


@cache
def own_modules() -> frozenset[str]:
    """The folders and files of `ledger` that one ledger alone consists of, as the registry says where each is opened."""
    places = re.findall(r'opens="pares\.ledger\.(\w+)', (SOURCE / "pares/ledger/registry.py").read_text())
    return frozenset(places)


def deep_reaches(tree: ast.AST) -> Iterator[str]:
    """Chains of attributes that begin with a private one, of anything but `self` and `cls`, and are three or more long."""
    inner = set[int]()
    for node in ast.walk(tree):  # which comes to a chain before it comes to the parts of it
        if not isinstance(node, ast.Attribute) or id(node) in inner:
            continue
        names: list[str] = []
        at: ast.expr = node
        while isinstance(at, ast.Attribute | ast.Subscript | ast.Call):
            if isinstance(at, ast.Attribute):
                names.append(at.attr)
                inner.add(id(at))
            at = at.func if isinstance(at, ast.Call) else at.value
        names.reverse()
        own = isinstance(at, ast.Name) and at.id in ("self", "cls")
        for place, name in enumerate(names):
            private = name.startswith("_") and not name.startswith("__") and name not in OPEN
            if private and not (own and place == 0):
                if len(names) - place >= DEEP:
                    yield ".".join(names[place:])
                break


def tests_that_reach_deep() -> list[str]:
    trees = _trees(ROOT / "tests", r"\._[a-z]")
    return _counted(f"{_name(file)}: {chain}" for file, tree in trees.items() for chain in deep_reaches(tree))


CHECKS: Final[dict[str, Callable[[], list[str]]]] = {
    "circles of imports": lambda: _circles(When.AT_ONCE),
    "circles with what type checkers import": lambda: _circles(When.FOR_CHECKERS),
    "circles with what functions import": lambda: _circles(When.IN_FUNCTIONS),
    "long files": long_files,
    "full folders": full_folders,
    "files named after their folder": named_after_their_folder,
    "casts to a loop": casts_to_a_loop,
    "capabilities asked for by name": capabilities_by_name,
    "protocols told apart by name": protocols_by_name,
    "ledgers told apart by scheme": ledgers_by_scheme,
    "tests that reach deep": tests_that_reach_deep,
}
