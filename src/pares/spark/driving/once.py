"""Whether Spark may repeat a task, or does: where each record is to be worked on at most once, it must not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pares.core.errors import ConfigError, ParesError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NEEDED: Final = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1", "spark.speculation": "false"}
"""What a session is to be started with."""
_DEFAULTS: Final = {
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "4",
    "spark.speculation": "false",
}


def once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a task, as of `mapInArrow`: raises before the first row unless this is the task's first attempt. Settings alone do not
    see to that: a task that was lost with an executor which a cluster took away counts as no failure, and is repeated."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber() > 0:
        raise ParesError(f"attempt {context.attemptNumber()} of a task whose records are given out at most once")
    yield from batches


def check_once(spark: SparkSession) -> None:
    """Raises `ConfigError` unless tasks and stages of this session run once, whatever befalls them."""
    master = spark.conf.get("spark.master", "") or ""
    wrong: list[str] = []
    for name, needed in NEEDED.items():
        found = spark.conf.get(name, _DEFAULTS[name]) or ""
        if name == "spark.task.maxFailures" and (master == "local" or master.startswith("local[")):
            # There Spark takes no notice of the setting: a task fails once, unless the master says local[CORES,FAILURES].
            found = master.partition(",")[2].strip("] ") or "1"
        if found.lower() != needed:
            wrong.append(f"{name}={needed} (it is {found})")
    if wrong:
        raise ConfigError(
            f"this Spark may run a task twice, which at most once does not allow: start the session with {', '.join(wrong)}"
        )
