"""A heap that is too small: said in words, at once; never a hang."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from scribe import story

from pares.core.errors import CapabilityError, ConfigError
from pares.spark.host import memory
from pares.spark.host.memory import in_memory

TOO_MUCH = """
import sys
from pares.core.errors import CapabilityError
from pares.spark.audit import audit
from pares.spark.session import session
spark = session(memory="600m", conf={"spark.sql.session.timeZone": "UTC"})
assert spark.conf.get("spark.driver.memory") == "600m"
writes = spark.sql("SELECT repeat('x', CAST(1500000000 + id AS INT)) AS role, 1L AS token, 1L AS at_ms FROM range(1)")
try:
    audit(sys.argv[1], "g", writes, spark=spark)
except CapabilityError as error:
    print(error)
"""


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_heap_that_is_too_small_ends_the_audit_and_is_named(tmp_path: Path) -> None:
    url = story(1, roles=1, steps=10).save(tmp_path / "work.db")
    ran = subprocess.run([sys.executable, "-c", TOO_MUCH, url], capture_output=True, text=True, timeout=800)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "heap of 600m is too small" in ran.stdout
    assert "--memory" in ran.stdout


def test_what_a_lost_jvm_raises_is_not_printed_by_py4j_as_well(caplog: pytest.LogCaptureFixture) -> None:
    """It does so where the JVM's end resets the connection, and not where it closes it."""
    with in_memory():
        logging.error("Exception while sending command.")
        logging.error("another one")
    logging.error("Exception while sending command.")
    assert caplog.messages == ["another one", "Exception while sending command."]


def test_what_the_user_did_wrong_is_not_taken_for_a_heap_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "out_of_memory", lambda: "the heap is too small")
    with pytest.raises(ConfigError, match="by='x'"), memory.in_memory():
        raise ConfigError("by='x' is no period")
    with pytest.raises(CapabilityError, match="too small"), memory.in_memory():
        raise RuntimeError("the JVM is gone")
