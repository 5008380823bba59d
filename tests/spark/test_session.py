"""A Spark session that nobody notices. In processes of their own: what is tested is how one begins and ends."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scribe import story

from pares.core.errors import ConfigError
from pares.spark.host.ending import may_be_killed
from pares.spark.host.telling import HEAP, heap_kib

QUIET = """
import sys
from pares.spark.session import prestart, session
prestart()
spark = session()
from pares.spark import LedgerSource
spark.dataSource.register(LedgerSource)
assert spark.read.format("pares").load(sys.argv[1]).count() > 100
def noisy(batches):
    import sys
    print("a worker's noise", file=sys.stderr, flush=True)
    yield from batches
assert spark.range(3).mapInArrow(noisy, "id long").count() == 3
try:
    spark.sql("SELECT nothing FROM nowhere")
except Exception as error:
    assert "nowhere" in str(error)
else:
    raise SystemExit("that should have failed")
from pares.spark.session import log_file, log_tail
assert "a worker's noise" in log_tail()
get = spark.conf.get
assert get("spark.sql.session.timeZone") == "UTC"
assert get("spark.driver.host") == get("spark.driver.bindAddress") == "127.0.0.1"
assert spark.sparkContext.uiWebUrl is None
assert session() is spark
from pyspark import SparkContext
print(log_file().parent, SparkContext._gateway.proc.pid)
kept = spark.range(5).cache()  # collected after the JVM has gone
"""

NO_JAVA = """
from pares.spark.session import prestart, session
from pares.core.errors import CapabilityError
prestart()
try:
    session()
except CapabilityError as error:
    print(error)
"""


NO_HEAP = """
from pares.spark.session import session
from pares.core.errors import ConfigError
try:
    session(memory="350m")
except ConfigError as error:
    print(error)
"""

SPARED = """
import sys
from pares.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
assert "pandas" not in sys.modules
import pandas  # a program may have it all the same
assert pandas.DataFrame({"a": [1]}).shape == (1, 1)
"""


def _run(code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], env={**os.environ, **env}, capture_output=True, text=True, timeout=800
    )


def _mentioned(folder: Path) -> bool:
    """Whether a process was started with it."""
    for told in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(folder).encode() in told.read_bytes():
                return True
    return False


@pytest.mark.spark
def test_the_console_stays_quiet_and_nothing_is_left(tmp_path: Path) -> None:
    url = story(1, roles=3, steps=40).save(tmp_path / "work.db")
    # What a shell may have set must not get in the way.
    ran = _run(QUIET, url, SPARK_HOME="/nonexistent", PYSPARK_SUBMIT_ARGS="--nonsense", TMPDIR=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")
    folder, process = ran.stdout.split()
    assert not Path(folder).exists()
    assert not Path(f"/proc/{process}/environ").exists()
    assert not list(tmp_path.glob("pares-*"))


def test_without_java_the_session_says_so(tmp_path: Path) -> None:
    ran = _run(NO_JAVA, PATH="/nonexistent", JAVA_HOME="/nonexistent", TMPDIR=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Spark needs Java 17 or newer" in ran.stdout
    assert not list(tmp_path.glob("pares-*"))


def test_a_java_that_can_not_start_spark_is_quoted(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(
        f'#!/bin/sh\ncase "$*" in *-XshowSettings*)\necho "java.home = {home}" >&2\n'
        'echo "java.specification.version = 17" >&2; exit 0;; esac\necho "out of luck" >&2; exit 1\n'
    )
    (home / "bin" / "java").chmod(0o755)
    ran = _run(NO_JAVA, JAVA_HOME=str(home), TMPDIR=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Spark did not start with Java 17" in ran.stdout
    assert "out of luck" in ran.stdout
    (log,) = tmp_path.glob("pares-spark-*/spark.log")
    assert str(log) in ran.stdout


def test_importing_costs_no_spark() -> None:
    ran = _run(
        "import sys, pares.spark, pares.spark.session, pares.spark.java; print([m for m in sys.modules if 'pyspark' in m])"
    )
    assert ran.stdout == "[]\n"


@pytest.mark.spark
def test_a_command_leaves_nothing_though_its_jvm_is_ended_at_once(tmp_path: Path) -> None:
    url = story(1, roles=2, steps=20).save(tmp_path / "work.db")
    (tmp_path / "temporary").mkdir()
    given = ["audit", "--ledger", url, "--group", "g", "--engine", "spark"]
    done = _run("from pares.cli import main; main()", *given, TMPDIR=str(tmp_path / "temporary"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [*(tmp_path / "temporary").iterdir()]
    assert not _mentioned(tmp_path / "temporary")


@pytest.mark.spark
def test_what_a_killed_command_has_left_the_next_one_removes(tmp_path: Path) -> None:
    url = story(1, roles=2, steps=20).save(tmp_path / "work.db")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    given = ["audit", "--ledger", url, "--group", "g", "--engine", "spark"]
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen([sys.executable, "-m", "pares", *given], env=env, stderr=subprocess.DEVNULL) as killed:
        deadline = time.monotonic() + 120
        while not list(temporary.glob("pares-spark-*/local/*")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        killed.kill()
    while _mentioned(temporary):  # its JVM ends when it has noticed
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert list(temporary.glob("pares-spark-*/held"))
    done = _run("from pares.cli import main; main()", *given, TMPDIR=str(temporary))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not [*temporary.iterdir()]


@pytest.mark.skipif(sys.platform != "linux", reason="who is whose child is looked up in /proc")
def test_a_jvm_with_workers_or_executors_elsewhere_is_left_to_tidy_up() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as alone:
        assert may_be_killed(alone, "local[2]")
        assert not may_be_killed(alone, "spark://host:7077")
        alone.kill()
    with subprocess.Popen(["sh", "-c", "cat; true"], stdin=subprocess.PIPE) as parent:
        deadline = time.monotonic() + 20
        while may_be_killed(parent, "local"):
            assert time.monotonic() < deadline
        assert parent.stdin is not None
        parent.stdin.close()
    assert not may_be_killed(parent, "local"), "it is gone"


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["python", "spark"])
def test_a_command_imports_no_pandas(tmp_path: Path, engine: str) -> None:
    """Arrow and Spark would, to see whether values are of its kinds."""
    url = story(1, roles=2, steps=20).save(tmp_path / "work.db")
    done = _run(SPARED, "audit", "--ledger", url, "--group", "g", "--engine", engine)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_heap_with_which_spark_does_not_start_is_refused() -> None:
    """By Spark itself only after seconds, with a trace."""
    said = subprocess.run([sys.executable, "-c", NO_HEAP], capture_output=True, text=True, timeout=120)
    assert said.stdout == "a heap of '350m' is too small for Spark, which needs 512m at least\n", said.stderr


@pytest.mark.parametrize(
    ("heap", "kib"),
    [(None, 1 << 20), ("512m", 512 << 10), ("1024", 1 << 20), ("4G", 4 << 20), ("4gb", 4 << 20)],
)
def test_a_heap_is_written_as_spark_has_it(heap: str | None, kib: int) -> None:
    assert heap_kib({} if heap is None else {HEAP: heap}) == kib


@pytest.mark.parametrize("heap", ["", "lots", "1.5g", "-4g", "4 apples", "0", "511m", "100000k"])
def test_any_other_heap_is_refused(heap: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(repr(heap))):
        heap_kib({HEAP: heap})
