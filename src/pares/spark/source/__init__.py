"""The Spark source `pares`: any ledger with a log, by its URL, as rows.

    from pares.spark import register
    register(spark)
    spark.read.format("pares").option("url", "sqlite:////var/lib/app/work.db").load()

Rule: a log partition is one Spark partition, in the order of its offsets, unless the reader asks for more. Whatever depends
on order (a fold) can then run without a shuffle; whatever does not (counting, searching) may split a log partition into
ranges of offsets by `splits`. The ranges are fixed when the read is planned, so that a task that runs twice reads the same,
and records that arrive meanwhile are in none of them.

A ledger is opened read-only here, where it can be: an audit must not be able to change what it judges.

Kafka is read by this source too, and not by Spark's own connector. That one would have to be downloaded, in exactly the
version of this Spark, and it takes Java's client settings: a caller that has told pares how to reach the brokers (TLS, SASL)
would have to say it again, in other words, for the audit. So what a member can read, an audit can, with nothing more
installed and nothing more to say. It costs no more than it must: for the fold every entry has to pass through Python anyway.
Jobs that have the connector all the same give what it loads to `connector.from_kafka`, and get the same rows.
"""

from pares.spark.source.batch import LedgerReader
from pares.spark.source.ledger import LedgerSource, register

__all__ = ["LedgerReader", "LedgerSource", "register"]
