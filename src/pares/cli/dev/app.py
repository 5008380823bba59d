"""`pares dev`: real servers on this machine, for trying and testing."""

from __future__ import annotations

import typer

from pares.cli.common.usage import Family
from pares.cli.dev.kafka import kafka
from pares.cli.dev.nats import nats
from pares.cli.dev.postgres import postgres
from pares.cli.dev.redis import redis

dev = typer.Typer(
    cls=Family, no_args_is_help=True, help="Start and end real servers on this machine, for trying and testing."
)
dev.add_typer(kafka, name="kafka")
dev.add_typer(nats, name="nats")
dev.add_typer(postgres, name="postgres")
dev.add_typer(redis, name="redis")
