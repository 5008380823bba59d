"""How a command starts Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.output import say
from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pares.spark.histories import History

Memory = Annotated[
    str | None, typer.Option("--memory", metavar="SIZE", help="The heap of Spark's driver, such as 4g (1g).")
]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Where Spark runs: local[2], spark://HOST:PORT (here)."),
]
Conf = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark's; may be given again.")
]


def settings(given: list[str]) -> dict[str, str]:
    """Spark's settings out of what stood behind `--conf`. Raises `ConfigError`."""
    found: dict[str, str] = {}
    for setting in given:
        name, equals, value = setting.partition("=")
        if not name or not equals:
            raise ConfigError(f"--conf {setting!r} is no NAME=VALUE")
        found[name] = value
    return found


def start(
    memory: str | None, master: str | None, conf: dict[str, str], *, silent: bool, long: bool = False
) -> SparkSession:
    """A session, and a word about it, as it takes seconds; `long`: see `session.session`. Raises `CapabilityError` without
    Spark or Java."""
    from pares.spark.session import require, spare_pandas, started

    require()
    spare_pandas()
    if not silent:
        say("starting Spark ...")
    return started(memory=memory, master=master, conf=conf, long=long, meanwhile=_import, fill=_load)


def start_on(history: Path, memory: str | None, master: str | None, conf: dict[str, str], *, silent: bool) -> History:
    """The history in a folder, with a session for as much as it holds. Raises what `start` raises."""
    from pares.spark.session import require_rows

    require_rows()
    from pares.spark.histories import history as opened

    long = opened(None, history).is_long
    return opened(start(memory, master, conf, silent=silent, long=long), history)


def _import() -> None:
    """What an audit needs anyway takes half a second, in which the JVM does not need this process."""
    from pares.spark import audit, reading, rows  # noqa: F401
    from pares.spark.plain import tables  # noqa: F401


def _load(spark: SparkSession) -> None:
    from pares.spark.audit import load

    load(spark)
