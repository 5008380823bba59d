"""`pares dev`: real servers on this machine, for trying and testing."""

from __future__ import annotations

import typer

from pares.cli.common.usage import Family
from pares.cli.dev.kafka import kafka
from pares.cli.dev.nats import nats
from pares.cli.dev.one_server import SERVERS, family
from pares.cli.dev.show import COMMANDS

dev = typer.Typer(
    cls=Family, no_args_is_help=True, help="Start and end real servers on this machine, for trying and testing."
)
dev.add_typer(kafka, name="kafka")
dev.add_typer(nats, name="nats")
for server in SERVERS:
    dev.add_typer(family(server), name=COMMANDS[server.kind])
