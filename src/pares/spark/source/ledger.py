"""The source by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSource, DataSourceReader

from pares.core.errors import CapabilityError
from pares.spark.source.batch import LedgerReader, PushingReader
from pares.spark.source.columns import ddl
from pares.spark.source.options import Options, options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader

_THERE: Final = "DATA_SOURCE_ALREADY_EXISTS"
PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"


class LedgerSource(DataSource):
    """Any ledger with a log, by its URL, as a DataFrame or as a stream.

    Options (their names in any case):

    `url`         the ledger, or the path given to `load`; with `#name`: that topic of it
    `table`       `entries` (the default): what stands in the log, with the envelope of what are records of pares;
                  `records`: the same with the columns of the history tables; `facts`: what the fold says, one thing a row
    `partitions`  a number, several (`0,2`), or `all`. Default: of entries the partition that the URL names, else all.
                  `partition` means the same
    `groups`      names of groups, by commas: rows of these alone
    `start`, `end` offsets, the end exclusive, one for all partitions or one for each (default: all there is)
    `splits`      into how many Spark partitions each log partition is cut (default 1, which keeps its order); not of facts
    `envelope`    `false` leaves the decoded columns of entries out
    `identity`    the log that is meant, as `Log.identity` says it
    `onLoss`      `error` (the default) or `mark`: what becomes of a `start` or a position that the log no longer has, and of a
                  URL that leads to another log
    `pushdown`    whether conditions of the query cut what is read; see `register`
    `state`       facts: a folder that all workers see, in which a stream keeps the state of the fold; see `worlds`
    `ends`        facts, batch: `false` leaves out what is said of the end of a log
    `clockErrorMs` facts: how far members' clocks may be off
    `maxRecordsPerTrigger` a stream: how many offsets a trigger takes at most
    `kafka.NAME`  the setting NAME of a Kafka ledger's clients (librdkafka's names), beside those in the file that the URL's
                  `config` names. Spark redacts options where they look like secrets; nothing here repeats their values

    Promised: a log partition is one Spark partition, in order; a range is fixed when it is planned; nothing that is lost is
    passed over. A lost beginning raises `LedgerGap`, which names the range, and another log `LedgerRewound`; with
    `onLoss=mark` there is a column `anomaly` (kind `lost_range` or `another_log`, from_offset, to_offset, detail), NULL but in
    the one row that stands for what is lost. Streams need pyspark 4.2: older ones have no admission control.
    """

    _pushes: ClassVar[bool] = False

    @classmethod
    def name(cls) -> str:
        return "pares"

    def schema(self) -> str:
        return ddl(self._told())

    def reader(self, schema: Any) -> DataSourceReader:
        told = self._told()
        return PushingReader(told) if told.pushdown else LedgerReader(told)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        try:
            from pares.spark.source.stream import LedgerStream
        except ImportError as error:
            raise CapabilityError(f"a stream of a ledger needs pyspark 4.2 or newer ({error})") from None
        return LedgerStream(self._told())

    def _told(self) -> Options:
        return options(dict(self.options), pushdown=self._pushes)


class _Pushing(LedgerSource):
    """For a session that pushes conditions down."""

    _pushes: ClassVar[bool] = True


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("pares")` and `spark.readStream.format("pares")` known to the session; see `LedgerSource`.

    Conditions on offset, partition and group cut what is read if the session has `spark.sql.python.filterPushdown.enabled` when
    this is called: without it, Spark refuses sources that take conditions, and no setting of the session is changed here.
    """
    pushes = str(spark.conf.get(PUSHDOWN, "false")).lower() == "true"
    make_known(spark, _Pushing if pushes else LedgerSource)


def make_known(spark: SparkSession, source: type[DataSource]) -> None:
    """Makes a source known to this session by its name, also where another one knows it."""
    try:
        spark.dataSource.register(source)
    except PySparkException as error:
        if error.getCondition() != _THERE:
            raise
        # Spark looks for the name in the session that is the active one, and takes it for one of its own if it is there. Any
        # frame that is made makes its session the active one.
        spark.createDataFrame([], "nothing int")
        spark.dataSource.register(source)
