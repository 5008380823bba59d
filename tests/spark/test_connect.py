"""Through Spark Connect, by its server: the same tables and the same verdict as by a session of one's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from planted import plant_all

from pares.spark.audit import audit
from pares.spark.source.ledger import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
JOB = Path(__file__).parent / "connect_job.py"


def test_a_server_gives_what_a_session_gives(tmp_path: Path, spark: SparkSession) -> None:
    url = plant_all().log.save(tmp_path / "work.db")
    ran = subprocess.run(
        [sys.executable, str(JOB), url, str(tmp_path / "kept")],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=500,
    )
    told = json.loads(ran.stdout)
    assert told["session"].startswith("pyspark.sql.connect")
    register(spark)
    for table in ("records", "facts"):
        read = spark.read.format("pares").option("url", url).option("table", table).option("groups", "g").load()
        assert told[table] == sorted(map(repr, read.toArrow().to_pylist()))
    here = audit(url, "g", spark=spark, engine="spark")
    assert here.engine == "spark"
    assert here.exit_code != 0, "what is planted is found"
    assert told["promises"] == [repr(promise) for promise in here.promises]
    assert told["exit code"] == here.exit_code
    short, long = told["verdicts"]
    assert long == short, "also where Spark's tasks read the log"
    assert told["terms"] == told["long terms"] == len(here.rows("terms"))
    assert told["violations"] == sorted(map(repr, here.rows("violations")))
    kept = [repr({"rule": row["rule"], "verdict": row["verdict"]}) for row in here.rows("violations")]
    assert told["kept"] == sorted(kept)
