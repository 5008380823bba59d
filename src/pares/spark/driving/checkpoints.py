"""What a batch covers, as the checkpoint of its query says.

Spark writes the end of a batch into `offsets/NUMBER` of the checkpoint before it runs the batch, and never again: a batch that
is run once more, by whichever driver, covers the same. It begins where the batch before it ended. The first line of such a file
is its version, the second settings of that moment; then comes one line for each source, in Spark's own words. They are compared
and not understood, so this holds for every source.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pares.core.errors import CapabilityError, ParesError
from pares.spark.sinks.extents import StreamExtent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_HEAD: Final = 2
_LOCAL: Final = "file:"


def root_of(query: StreamingQuery) -> str:
    """The folder of a query's checkpoint. Raises `CapabilityError` where Spark does not say it."""
    try:
        wrapper: Any = query._jsq
        return str(wrapper.streamingQuery().resolvedCheckpointRoot())
    except AttributeError as error:
        raise CapabilityError(
            f"this Spark does not say where a query keeps its checkpoint ({error}): use start(..., checkpoint=...)"
        ) from error


def extent_of(spark: SparkSession, root: str, query: str, batch: int) -> StreamExtent:
    """What batch number `batch` of the query covers. Raises `ParesError` if the checkpoint does not say it."""
    start = _sources(spark, root, batch - 1) if batch else None
    return StreamExtent(query, batch, start, _sources(spark, root, batch))


def _sources(spark: SparkSession, root: str, batch: int) -> str:
    name = f"{root}/offsets/{batch}"
    try:
        text = _read(spark, name)
    except Exception as error:
        raise ParesError(
            f"the checkpoint does not say what batch {batch} covers: {name} can't be read: {error}"
        ) from error
    sources = text.rstrip("\n").split("\n")[_HEAD:]
    if not sources:
        raise ParesError(
            f"{name} names no source's offsets: it is no file of Spark's, or of a version that is not known here"
        )
    return "\n".join(sources)


def _read(spark: SparkSession, name: str) -> str:
    if name.startswith((_LOCAL, "/")):
        return Path("/" + name.removeprefix(_LOCAL).lstrip("/")).read_text("utf-8")
    rows = spark.read.text(name, wholetext=True).collect()
    return str(rows[0][0])
