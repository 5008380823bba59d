"""What a job does through Spark Connect, in a process of its own: a process has sessions of one kind only.

    python tests/spark/connect_job.py URL FOLDER

Starts a server and says on standard output, as JSON, what came of it.
"""

from __future__ import annotations

import json
import os
import sys

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession

from pares.spark import history, reading, register
from pares.spark.audit import audit


def main() -> None:
    url, folder = sys.argv[1:]
    builder = SparkSession.builder.remote("local[2]").config("spark.connect.grpc.binding.address", "127.0.0.1")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false").getOrCreate()
    try:
        told: dict[str, object] = {"session": type(spark).__module__}
        register(spark)
        for table in ("records", "facts"):
            read = spark.read.format("pares").option("url", url).option("table", table).option("groups", "g").load()
            told[table] = sorted(map(repr, read.toArrow().to_pylist()))
        audited = audit(url, "g", spark=spark, engine="spark")
        told["promises"], told["exit code"] = [repr(promise) for promise in audited.promises], audited.exit_code
        told["violations"] = sorted(map(repr, audited.rows("violations")))
        told["terms"] = audited.frames["terms"].count()
        reading.SMALL = 0  # as a long log
        long = audit(url, "g", spark=spark, engine="spark")
        told["verdicts"] = [[promise.verdict for promise in one.promises] for one in (audited, long)]
        told["long terms"] = long.frames["terms"].count()
        kept = history(spark, folder)
        kept.update(url)
        told["kept"] = sorted(repr(row.asDict()) for row in kept.violations.select("rule", "verdict").collect())
    finally:
        spark.stop()
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
