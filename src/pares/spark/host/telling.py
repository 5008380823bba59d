"""How the JVM of a session that is started here is told what it is to do: Spark's settings, and the environment."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pares.core.errors import ConfigError

SHUFFLE_PARTITIONS: Final = 2
"""An audit's tables have one row a term: the default of 200 would spend seconds on empty partitions."""
MEMORY: Final = "1g"
"""The heap of a driver that is started here, unless told otherwise."""
LEAST: Final = "512m"
"""The least heap: of less than 450 MiB, as the JVM counts them, Spark makes no use."""
HEAP: Final = "spark.driver.memory"
_SIZE: Final = re.compile(r"(\d+)(?:([kmgt])b?)?")
JAVA: Final = "spark.driver.extraJavaOptions"
_LAUNCHER: Final = "-Xshare:auto -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the JVM that only puts the command of the other one together."""
_DROPPED: Final = ("PYSPARK_SUBMIT_ARGS", "SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_CONF_DIR")


def settings_of(app: str, folder: Path, *, long: bool = False) -> dict[str, str]:
    """`long`: its work takes minutes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = f"-Dderby.system.home={folder} -Duser.timezone=UTC -XX:+UseSerialGC -Xshare:auto"
    if not long:
        # The quick compiler: most jobs last seconds, and what they gain most from is an early start. [with it alone, the tables
        # of a million terms take half as long again]
        options += " -XX:TieredStopAtLevel=1"
    # What a JVM leaves behind that is ended at once would lie in folders that are not this process's own.
    options += f" -Djava.io.tmpdir={folder} -XX:-UsePerfData"
    # A first collection of the whole heap, a quarter of a second, is due otherwise once 21 MB are filled with classes.
    options += " -XX:MetaspaceSize=128m"
    # Each thread keeps a buffer outside the heap as large as the largest block that it has ever read or written: 250 MiB in all
    # after an audit of a million terms, and more of ten.
    options += " -Djdk.nio.maxCachedBufferSize=1048576"
    # A JVM that has run out of memory goes on for hours, mostly collecting garbage, and tells nobody.
    options += " -XX:+ExitOnOutOfMemoryError -XX:GCTimeLimit=90 -XX:GCHeapFreeLimit=5"
    return {
        "spark.app.name": app,
        "spark.master": f"local[{min(cores, 4)}]",
        HEAP: MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        JAVA: options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
        "spark.default.parallelism": str(SHUFFLE_PARTITIONS),
        # Re-planning between stages pays for large data; with one row a term each extra job is only a delay.
        "spark.sql.adaptive.enabled": "false",
        # Of settled rows Spark believes that they are endless, so that it filters both sides of each join by what the other one
        # holds, which needs the other one twice: a third of an audit of many terms.
        "spark.sql.optimizer.runtime.bloomFilter.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.python.worker.faulthandler.enabled": "true",
    }


def heap_kib(settings: Mapping[str, str]) -> int:
    """How large the heap is to be. Raises `ConfigError` for what is no size, and for one with which Spark does not start."""
    text = settings.get(HEAP, MEMORY)
    found = _kib(text)
    if found is None:
        raise ConfigError(f"a heap of {text!r} is no size: write it as {LEAST} or 4g")
    if found < (_kib(LEAST) or 0):
        raise ConfigError(f"a heap of {text!r} is too small for Spark, which needs {LEAST} at least")
    return found


def _kib(text: str) -> int | None:
    """A number alone is one of MiB, as Spark has it."""
    size = _SIZE.fullmatch(text.strip().lower())
    return None if size is None else int(size[1]) << 10 * "kmgt".index(size[2] or "m")


@contextlib.contextmanager
def environment(java_home: Path) -> Iterator[None]:
    """The environment that the JVM inherits, and with it the workers; as it was before, afterwards."""
    import pyspark

    import pares

    package = str(Path(pares.__file__).resolve().parent.parent)
    path = os.environ.get("PYTHONPATH")
    wanted: dict[str, str | None] = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).resolve().parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LAUNCHER_OPTS": _LAUNCHER,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": package if not path else f"{path}{os.pathsep}{package}",
        **dict.fromkeys(_DROPPED),
    }
    before = {key: os.environ.get(key) for key in wanted}
    _apply(wanted)
    try:
        yield
    finally:
        _apply(before)


def _apply(values: dict[str, str | None]) -> None:
    for key, value in values.items():
        if value is None:
            os.environ.pop(key, None)
        else:
            os.environ[key] = value
