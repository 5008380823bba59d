"""How a command shows itself in `--help`: as one would say it.

typer puts each argument in braces, and more round those that may be left out or given again; it can't know that an option is
needed, or that what follows `--` is a command; it shows a type behind flags that take no value; and it breaks lines where the
source breaks them, whatever the width of the terminal.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    _Base = TyperCommand
else:
    _Base = object


class _Legible(_Base):
    """For commands and groups alike."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if self.help is not None:
            self.help = "\n\n".join(" ".join(part.split()) for part in self.help.split("\n\n"))

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)
        for param in params:
            if param.param_type_name == "argument":
                _hide_type(param)  # its name and its help say what it is
            elif param.metavar is None and getattr(param, "is_flag", False):
                param.metavar = ""
        return params


def _hide_type(param: Any) -> None:
    """Of this parameter alone: types are shared. From 0.29 on, typer asks the parameter and not its type."""
    param.display_type_rich = _nothing
    if hasattr(param, "type"):
        param.type = copy.copy(param.type)
        param.type.get_metavar = _nothing


def _nothing(*_args: Any, **_settings: Any) -> str:
    return ""


class Plain(_Legible, TyperCommand):
    """Arguments by their names, in brackets where they may be left out."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Wrapping(_Legible, TyperCommand):
    """`run`: a role, and a command."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return ["--role ROLE", "[OPTIONS]", "-- CMD [ARGS]..."]


class Consuming(_Legible, TyperCommand):
    """`consume`: a topic, and a command. Options may stand before and behind the topic."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return ["[OPTIONS]", "TOPIC", "-- CMD [ARGS]..."]


class Family(_Legible, TyperGroup):
    """A command that has commands."""
