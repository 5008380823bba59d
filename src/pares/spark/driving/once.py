"""Whether a session of Spark's may repeat a task: where each record is to be worked on at most once, it must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pares.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEEDED: Final = {"spark.task.maxFailures": "1", "spark.stage.maxConsecutiveAttempts": "1", "spark.speculation": "false"}
"""What a session is to be started with."""
_DEFAULTS: Final = {
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "4",
    "spark.speculation": "false",
}


def check_once(spark: SparkSession) -> None:
    """Raises `ConfigError` unless tasks and stages of this session run once, whatever befalls them."""
    master = spark.conf.get("spark.master", "") or ""
    wrong: list[str] = []
    for name, needed in NEEDED.items():
        found = spark.conf.get(name, _DEFAULTS[name]) or ""
        if name == "spark.task.maxFailures" and master.startswith("local"):
            # There Spark takes no notice of the setting: a task fails once, unless the master says local[CORES,FAILURES].
            found = master.partition(",")[2].strip("] ") or "1"
        if found.lower() != needed:
            wrong.append(f"{name}={needed} (it is {found})")
    if wrong:
        raise ConfigError(
            f"this Spark may run a task twice, which at most once does not allow: start the session with {', '.join(wrong)}"
        )
