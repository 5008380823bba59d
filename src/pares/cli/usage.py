"""The usage line of a command, as one would say it.

typer puts each argument in braces, and more round those that may be left out or given again; and it can't know that an
option is needed, or that what follows `--` is a command.
"""

from __future__ import annotations

import typer
from typer.core import TyperCommand


class Plain(TyperCommand):
    """Arguments by their names, in brackets where they may be left out."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


class Wrapping(TyperCommand):
    """`run`: a role, and a command."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        return ["--role ROLE", "[OPTIONS]", "-- CMD [ARGS]..."]
