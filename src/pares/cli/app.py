"""Puts the commands together. What a command needs is imported when it runs, so that `--help` is quick and always works."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from pares.cli.audit import audit
from pares.cli.common.output import plain_errors
from pares.cli.common.usage import Consuming, Family, Plain, Wrapping
from pares.cli.demo import demo
from pares.cli.dev.app import dev
from pares.cli.doctor import doctor
from pares.cli.drain import drain
from pares.cli.handover import handover
from pares.cli.history import history
from pares.cli.kept.capacity import capacity
from pares.cli.kept.slo import slo
from pares.cli.log import log
from pares.cli.pause import pause, resume
from pares.cli.roles import roles
from pares.cli.run import SETTINGS, run
from pares.cli.sim import sim
from pares.cli.topics.consume import consume
from pares.cli.watch import watch
from pares.cli.witness import witness

HELP: Final = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="pares",
    cls=Family,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=HELP,
    help="Processes that share a log agree on who does what.",
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"pares {version('pares')}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Processes that share a log agree on who does what."""


SEE, STEER, WORK, CHECK = "See", "Steer", "Work", "Check"

app.command(rich_help_panel=WORK, cls=Plain)(demo)
app.command(rich_help_panel=WORK, cls=Wrapping, context_settings={**HELP, **SETTINGS})(run)
app.command(rich_help_panel=WORK, cls=Consuming)(consume)
app.command(rich_help_panel=WORK, cls=Plain)(witness)
app.command(rich_help_panel=SEE, cls=Plain)(watch)
app.command(rich_help_panel=SEE, cls=Plain)(history)
app.command(rich_help_panel=SEE, cls=Plain)(log)
app.add_typer(roles, name="roles", rich_help_panel=SEE)
app.command(rich_help_panel=STEER, cls=Plain)(handover)
app.command(rich_help_panel=STEER, cls=Plain)(drain)
app.command(rich_help_panel=STEER, cls=Plain)(pause)
app.command(rich_help_panel=STEER, cls=Plain)(resume)
app.add_typer(dev, name="dev", rich_help_panel=WORK)
app.command(rich_help_panel=CHECK, cls=Plain)(doctor)
app.command(rich_help_panel=CHECK, cls=Plain)(audit)
app.command(rich_help_panel=CHECK, cls=Plain)(slo)
app.command(rich_help_panel=CHECK, cls=Plain)(capacity)
app.command(rich_help_panel=CHECK, cls=Plain)(sim)


def start(arguments: list[str] | None) -> None:
    """Runs the command line and raises `SystemExit`. Wrong usage ends with 2, which typer sees to."""
    with plain_errors():
        app(arguments, prog_name="pares")
