"""How fast groups write: what a log is to be made for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RATES: Final = """
WITH wrote AS (
  SELECT log, `group`, member, ts_ms DIV 60000 * 60000 AS minute_ms, 1 AS records, CAST(kind = 'beat' AS INT) AS beats, bytes,
         0 AS gained FROM {records} WHERE member IS NOT NULL
  UNION ALL
  SELECT log, `group`, member, at_ms DIV 60000 * 60000, 0, 0, 0, 1 FROM {facts} WHERE kind = 'gained' AND at_ms IS NOT NULL)
SELECT log, `group`, member, minute_ms, sum(records) AS records, sum(beats) AS beats, sum(bytes) AS bytes, sum(gained) AS gained
FROM wrote GROUP BY log, `group`, member, minute_ms
"""
_USED: Final = """
WITH spans AS (
  SELECT `group`, min(ts_ms) AS from_ms, max(ts_ms) AS to_ms FROM {records} WHERE member IS NOT NULL GROUP BY `group`),
minutes AS (
  SELECT `group`, minute_ms, sum(records) AS records, sum(beats) AS beats, sum(bytes) AS bytes, sum(gained) AS gained,
         count(DISTINCT member) AS members
  FROM {rates} GROUP BY `group`, minute_ms)
SELECT `group`, from_ms, to_ms, sum(records) AS records, sum(beats) AS beats, sum(bytes) AS bytes, sum(gained) AS gained,
       max(members) AS members, max(records) AS busiest, max(bytes) AS busiest_bytes
FROM minutes JOIN spans USING (`group`) GROUP BY `group`, from_ms, to_ms ORDER BY bytes DESC, `group`
"""
MOST: Final = 1000
"""Groups that are told of at the most."""


class Use(NamedTuple):
    """What a group has written from `from_ms` to `to_ms`, by the log's stamps."""

    group: str
    from_ms: int
    to_ms: int
    records: int
    beats: int
    bytes: int
    """Of the records alone, without what a ledger adds to each."""
    gained: int
    """How often a seat got a holder."""
    members: int
    """Of the minute with the most: how many wrote in it."""
    busiest: int
    """Records in the busiest minute."""
    busiest_bytes: int

    def per_second(self, what: float) -> float | None:
        """So much over the whole time, for each second; None if it has not lasted for one millisecond."""
        return 1000 * what / (self.to_ms - self.from_ms) if self.to_ms > self.from_ms else None


def rates(spark: SparkSession, records: DataFrame, facts: DataFrame) -> DataFrame:
    """The table `rate_minute`: what each member has written in each minute, and how many seats it gained."""
    return spark.sql(_RATES, records=records, facts=facts)


def used(records: DataFrame, by_minute: DataFrame, log: str) -> list[Use]:
    """What each group has written in the log of this identity, the most first."""
    mine, minutes = records.where(records["log"] == log), by_minute.where(by_minute["log"] == log)
    found = records.sparkSession.sql(_USED, records=mine, rates=minutes).limit(MOST).collect()
    return [Use(**row.asDict()) for row in found]
