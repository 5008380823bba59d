"""The house keeps to its order, but for what is on the list; and the list has nothing that is mended."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from pares.ledger import registry

from .checks import CHECKS, SCHEMES, deep_reaches
from .imports import When, circles, graph
from .lists import FILE, grown, read, weight, written

ALLOWED = read(FILE.read_text())


@pytest.mark.parametrize("check", CHECKS)
def test_no_more_and_no_less_than_is_allowed(check: str) -> None:
    found, allowed = CHECKS[check](), ALLOWED[check]
    assert [line for line in found if line not in allowed] == [], (
        f"{check}: mend these, or if files have only moved, run `python -m tests.house --record`"
    )
    assert [line for line in allowed if line not in found] == [], (
        f"{check}: these are no more: run `python -m tests.house --record`, so that they don't come back"
    )


def test_no_two_files_of_tests_have_one_name() -> None:
    """Pytest imports them by their names alone. [each folder can be played, and all of them together can't]"""
    names = Counter(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_the_list_is_as_it_is_written() -> None:
    assert list(ALLOWED) == list(CHECKS)
    assert written(ALLOWED) == FILE.read_text()


def test_nothing_may_be_recorded_that_makes_a_list_longer() -> None:
    before = {
        "long files": ["a.py", "b.py"],
        "full folders": ["core: 20 files"],
        "casts to a loop": ["a.py: x (2 times)"],
    }
    moved = {
        "long files": ["a.py", "c.py"],
        "full folders": ["new: 19 files"],
        "casts to a loop": ["b.py: x", "a.py: x"],
    }
    assert grown(before, moved) == []
    assert grown(before, {**moved, "long files": ["a.py", "b.py", "c.py"]}) == ["long files: 2 before, 3 now:\n  c.py"]
    assert grown(before, {**moved, "full folders": ["core: 21 files"]}) != []
    assert grown(before, {"new check": ["a.py"]}) != []
    assert weight("circles of imports", ["a b c", "d e"]) == 5


def test_the_check_of_schemes_sees_all_that_the_registry_has() -> None:
    """[it knew redis and not rediss, so that a comparison with rediss passed it]"""
    assert set(registry._BUILT_IN) - SCHEMES == set()


def package(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = tmp_path / "pares" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_circles_are_found_by_the_sort_of_import_that_closes_them(tmp_path: Path) -> None:
    checked = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pares.b import y\n"
    source = package(
        tmp_path,
        {
            "__init__.py": "",
            "a.py": "from pares import b\n",
            "b.py": "import pares.c\n",
            "c.py": "try:\n    from .a import x\nexcept ImportError:\n    pass\n",
            "d.py": "from pares.e import x\n",
            "e.py": "def late():\n    with open('x'):\n        from pares.d import y\n",
            "f/__init__.py": "from .g import x\n",
            "f/g.py": checked + "class G:\n    from pares.f.h import z\n",
            "f/h.py": "from pares.f import g\n",
            "alone.py": "import os\nfrom pares.a import x\n",
        },
    )
    imports = graph(source)
    assert imports["pares.f.g"] == {"pares.b": When.FOR_CHECKERS, "pares.f.h": When.AT_ONCE}
    assert circles(imports, When.AT_ONCE) == [["pares.a", "pares.b", "pares.c"], ["pares.f.g", "pares.f.h"]]
    assert circles(imports, When.FOR_CHECKERS) == circles(imports, When.AT_ONCE)
    assert ["pares.d", "pares.e"] in circles(imports, When.IN_FUNCTIONS)


def test_a_circle_that_only_type_checkers_see(tmp_path: Path) -> None:
    checked = "import typing\nif typing.TYPE_CHECKING:\n    from pares.a import x\n"
    imports = graph(package(tmp_path, {"__init__.py": "", "a.py": "import pares.b\n", "b.py": checked}))
    assert circles(imports, When.AT_ONCE) == []
    assert circles(imports, When.FOR_CHECKERS) == [["pares.a", "pares.b"]]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("me._loop.claims.outbox.sent.n", ["_loop.claims.outbox.sent.n"]),
        ("me._loop.claims", []),
        ("self._loop.claims.outbox", []),
        ("self.me._loop.claims.outbox", ["_loop.claims.outbox"]),
        ("self._me._loop.claims.outbox", ["_loop.claims.outbox"]),
        ("me._made()._loop['x'].claims()", ["_made._loop.claims"]),
        ("me.__class__.__name__.x", []),
        ("row._asdict().x.y", []),
    ],
)
def test_what_reaches_deep(text: str, found: list[str]) -> None:
    assert list(deep_reaches(ast.parse(text))) == found
