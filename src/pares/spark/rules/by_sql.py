"""The rules by their SQL: which views are asked, in which order, and what is left out where there is nothing to ask of.

Each frame is worked out once and settled. All records are gone through once, however many rules there are, for what is no beat
(`words`) and for the runs of their numbers, or once for each where they are in no files; and again for those that something
else names. Whatever has to be sorted is only what those runs show to be out of order.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pares.spark.facts.base import arrow_schema
from pares.spark.rules import runs, sifting
from pares.spark.rules.base import KNOWN_FAULTS, Allowed, text, view
from pares.spark.rules.hints import hinted, hints_for, if_few
from pares.spark.rules.registry import violations
from pares.spark.session import frame_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.host.compiling import Compiling

Settle: TypeAlias = "Callable[[str, DataFrame], DataFrame]"
"""Works out the rows of a frame, and puts it under that name among the frames; returns it."""

WORDS: Final = "SELECT * FROM {records} WHERE cause IS NULL OR cause <> 'beat'"
COUNTING: Final = "SELECT * FROM {followed} UNION ALL SELECT * FROM {walked}"
_NOBODY: Final = "SELECT *, 0L AS fit, 0L AS fit_long FROM {stretches}"
_SIZES: Final = """
SELECT 'kind' AS of, cause AS what, count(*) AS many FROM {words} GROUP BY cause
UNION ALL SELECT 'kind', kind, count(*) FROM {facts} GROUP BY kind
UNION ALL SELECT 'size', 'words', count(*) FROM {words}
UNION ALL SELECT 'size', 'left', count(*) FROM {words} WHERE cause IN ('leave', 'obituary')
UNION ALL SELECT 'size', 'named', count(*) FROM {named}
UNION ALL SELECT 'size', 'named beats', count(*) FROM {named} WHERE beat
UNION ALL SELECT 'size', 'dead that spoke', count(*) FROM {spoke}
UNION ALL SELECT 'size', 'uneven', sum(many) FROM {series} WHERE NOT even
UNION ALL SELECT 'size', 'uneven series', count(*) FROM {series} WHERE NOT even
UNION ALL SELECT 'size', 'uncounted series', count(*) FROM {series} WHERE NOT counted
UNION ALL SELECT 'size', 'known', count(*) FROM {known}
UNION ALL SELECT 'size', 'unsteady', sum(many) FROM {known} WHERE NOT steady
UNION ALL SELECT 'size', 'unsteady series', count(*) FROM {known} WHERE NOT steady
"""


def ask(
    spark: SparkSession,
    frames: MutableMapping[str, DataFrame],
    here: pa.Table | None,
    sifted: DataFrame | None,
    allowed: Allowed,
    settled: Settle,
    how: Compiling,
) -> None:
    """Makes `violations`, `anomalies`, `waits`, and what they stand on, of `records`, `facts` and the tables of intervals;
    `here`: the rows of the first, if they are; `sifted`: what was sifted of them (`sifting`), if their files are known."""
    import pyarrow as pa

    literals = {**allowed.literals(), "kinds": ", ".join(KNOWN_FAULTS)}
    fields = [arrow_schema().field(name) for name in frames["records"].columns]
    hints, nothing = dict[str, str](), frame_of(spark, pa.schema(fields).empty_table())

    def made(name: str, of: str | None = None, *, asked: int = 1) -> DataFrame:
        """The view's frame. `asked`: how many records or members it looks up among all records."""
        sql, of = hinted(text(f"views/{name}"), **hints), of or name.rpartition("/")[2]
        if not asked:
            return settled(of, view(spark, sql, frames, **literals, records=nothing))
        with through_all("{records}" in sql):
            return settled(of, view(spark, sql, frames, **literals))

    def through_all(records: bool) -> AbstractContextManager[None]:
        return how.many() if records and sifted is not None else nullcontext()

    if sifted is not None:
        frames["words"] = sifting.words_of(sifted, frames["records"].columns)
        frames["found"] = sifting.runs_of(sifted)
    else:
        settled("words", view(spark, WORDS, frames))
        records = frames["records"]
        frames["found"] = runs.of_frame(records) if here is None else frame_of(spark, runs.of_table(here))
    for name in ("runs", "series", "counting/known", "counting/named", "spoke", "pauses"):
        made(name)
    rows: list[dict[str, Any]] = view(spark, _SIZES, frames).toArrow().to_pylist()
    present = {row["what"] for row in rows if row["of"] == "kind"}
    sizes = {row["what"]: row["many"] or 0 for row in rows if row["of"] == "size"}
    hints |= hints_for(sizes)
    if made("waits", "stretches").isEmpty():
        frames["waits"] = view(spark, _NOBODY, frames)
    else:
        present.add("wait")
        made("able", "waits")
    made("counting/told", asked=sizes["named beats"])
    inside = made("counting/asked").where("offset < high").count()
    made("counting/followed", asked=inside)
    made("counting/walked", asked=sizes["unsteady series"])
    # Settled as well: Spark's optimizer fails at unions of settled frames that are looked at more than once ("key not found").
    settled("counting", view(spark, COUNTING, frames))
    if not sizes["dead that spoke"]:
        present.discard("obituary")
    with through_all("obituary" in present):
        settled("violations", violations(spark, frames, allowed, present, hints))
    again = made("numbers", asked=sizes["uneven series"]).where("again").count()
    hints["few_doubtful"] = if_few(again, "d")
    made("twins", asked=again)
    made("uncounted", asked=sizes["uncounted series"])
    made("anomalies")
