"""`--help` of every command: it reads well at any width, and says of each option what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_command

from pares.cli.app import app, start


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = get_command(app) if command is None else command
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from commands(below, (*path, name))


ALL = list(commands())


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "pares" for path, _ in ALL])
def test_its_parameters_are_explained_and_shown_without_types(path: tuple[str, ...], command: Any) -> None:
    for param in command.get_params(typer.Context(command)):
        if getattr(param, "hidden", False):
            continue
        assert param.help, f"{' '.join(path)}: {param.name} has no help"
        if param.param_type_name == "argument":
            continue
        # typer's way up to 0.28, and from 0.29 on
        make = getattr(param, "display_type_rich", None) or param.make_metavar
        shown = make(ctx=typer.Context(command))
        if getattr(param, "is_flag", False):
            assert shown in ("", None), f"{' '.join(path)}: {param.name} is shown with {shown}"
        else:
            assert shown.isupper() or "|" in shown, (
                f"{' '.join(path)}: {param.name} is shown as {shown}: give it a metavar"
            )


def test_there_are_as_many_as_the_surface_names() -> None:
    assert {path[0] for path, _ in ALL if path} >= {"demo", "run", "watch", "roles", "history", "handover", "drain"}
    assert len(ALL) > 20


@pytest.mark.parametrize(("path", "command"), ALL, ids=[" ".join(path) or "pares" for path, _ in ALL])
def test_its_paragraphs_are_not_broken_where_the_source_is(path: tuple[str, ...], command: Any) -> None:
    """typer shows a line's end in a docstring as one on the screen, in the middle of a sentence."""
    assert command.help
    for paragraph in command.help.split("\n\n"):
        assert "\n" not in paragraph, f"{' '.join(path)}: {paragraph!r}"


@pytest.mark.parametrize("path", [path for path, _ in ALL], ids=" ".join)
def test_it_is_shown(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        start([*path, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert f"Usage: {' '.join(('pares', *path))} " in shown
    assert not re.search(r"<\w+>", shown), "a type, which says nothing that name and help don't say"
