"""Executors that are lost while they work: Spark starts others, and what is found is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kept import bytes_of
from tests.spark.facts.test_fold_ranges import steady

from pares.spark.audit import audit
from pares.spark.histories import history

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
ENTRIES = 60_000

# Spark's own small cluster: a driver, and executors that are processes of their own, as on any other one.
JOB = """
import json, os, signal, sys, threading, time
from pathlib import Path
from pares.spark import tables
from pares.spark.audit import audit
from pares.spark.histories import history
from pares.spark.session import log_file, session

url, folder = sys.argv[1:]
spark = session(memory="1g", master="local-cluster[2,1,1024]")
asked, driver, killed = spark.sparkContext.statusTracker(), spark.sparkContext._gateway.proc.pid, []

def executors():
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == driver and b"CoarseGrainedExecutorBackend" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return sorted(found)

def busy():
    stages = map(asked.getStageInfo, asked.getActiveStageIds())
    return any(stage is not None and stage.numActiveTasks for stage in stages)

def strike():
    # The one that has been there the longest, and has kept the most.
    there = executors()
    os.kill(there[0], signal.SIGKILL)
    killed.append(there[0])
    while len(executors()) < 2 or there[0] in executors():
        time.sleep(0.05)

def struck(do):
    # While its tasks fold the log.
    while len(executors()) < 2:
        time.sleep(0.05)
    over = threading.Event()
    def wait_and_strike():
        while not busy():
            if over.wait(0.01):
                return
        strike()
    hands = threading.Thread(target=wait_and_strike)
    hands.start()
    try:
        return do()
    finally:
        over.set()
        hands.join()

between = []

def between_jobs(frame, settled=tables.settled):
    # When what the tasks have found is kept by executors, and so is a first table of it, of which nothing else is left. The
    # executor that came for the first one may have come too late to keep anything: then it is all worked out again.
    done = settled(frame)
    if not between:
        between.append(True)
        strike()
    return done

found = struck(lambda: audit(url, "g", spark=spark))
straight, tables.settled = tables.settled, between_jobs
again = audit(url, "g", spark=spark)
tables.settled = straight
history(spark, folder).update(url, max_records=30_000)
struck(lambda: history(spark, folder).update(url))
kept = history(spark, folder).audit("g")
said = log_file().read_text(errors="replace")
print(json.dumps({
    "killed": len(set(killed)), "lost": said.count("Lost executor"),
    "summaries": [str(one.summary) for one in (found, again, kept)],
    "rows": [{name: len(one.rows(name)) for name in one.tables} for one in (found, again)],
}))
"""


def test_an_executor_that_is_killed_changes_nothing_of_what_is_found(tmp_path: Path) -> None:
    url = steady(range(5000, ENTRIES, 5000), length=ENTRIES).save(tmp_path / "l.db")
    job = [sys.executable, "-c", JOB, url, str(tmp_path / "h")]
    # Into files: workers of an executor that was killed may hold a pipe open for longer than the driver lives.
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as to, err.open("w") as errors:
        ran = subprocess.run(job, stdout=to, stderr=errors, timeout=800, check=False)
    assert ran.returncode == 0, err.read_text()
    said = json.loads(out.read_text())
    # Between two jobs always; while tasks fold, unless these had ended before it was seen that they ran.
    assert said["killed"] >= 1
    assert said["lost"] >= 1
    plain = audit(url, "g", engine="python")
    assert said["summaries"] == [str(plain.summary)] * 3
    assert said["rows"] == [{name: len(plain.rows(name)) for name in plain.tables}] * 2
    straight = history(None, tmp_path / "straight")
    straight.update(url, max_records=30_000)
    straight.update(url)
    history(None, tmp_path / "h").sweep(older_than_s=-1)
    assert bytes_of(tmp_path / "h") == bytes_of(straight.path)
