"""A real group of real processes, one killed and one frozen, and then audited: the whole way, with nothing made up."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pares.core.wire.changes import DidChanged
from pares.spark.audit import audit
from pares.spark.report import write_report
from standstill import stop_between_writes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.processes, pytest.mark.timeout(900)]

ROLES = ["r0", "r1", "r2", "r3"]
MEMBER = f"""
import sys, pares
with pares.Member(sys.argv[1], group="g", name=sys.argv[2], roles={ROLES}, session=0.5) as me:
    print("here", flush=True)
    sys.stdin.read()
"""


def _until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, "the group did not get there"
        time.sleep(0.05)


def test_a_crash_and_a_freeze_break_no_promise(tmp_path: Path, spark: SparkSession) -> None:
    import pares

    url = f"sqlite:///{tmp_path}/work.db"
    processes: dict[str, subprocess.Popen[str]] = {}
    faults: list[tuple[int, str, str]] = []

    def fault(name: str, word: str, sent: signal.Signals) -> None:
        faults.append((time.time_ns() // 1_000_000, name, word))
        processes[name].send_signal(sent)

    try:
        for name in "abc":
            processes[name] = subprocess.Popen(
                [sys.executable, "-c", MEMBER, url, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        for process in processes.values():
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        with pares.Observer(url, group="g") as observer:

            def led_by(names: str) -> bool:
                holders = [observer.leader(role) for role in ROLES]
                return {holder.name for holder in holders if holder is not None} == set(names) and None not in holders

            def all_have_said_so(names: str) -> bool:
                """A member that dies before it has said that it leads is nobody's predecessor in the history."""
                with pares.Observer(url, group="g") as late:
                    said = {(c.seat, c.token) for c in late.read() if isinstance(c, DidChanged) and c.what == "lead"}
                return (
                    led_by(names) and {((h.role, h.seat), h.token) for r in ROLES for h in observer.leaders(r)} <= said
                )

            _until(lambda: all_have_said_so("abc"))
            time.sleep(0.3)  # so that what was moved for balance has come to rest
            _until(lambda: all_have_said_so("abc"))
            fault("a", "killed", signal.SIGKILL)
            _until(lambda: all_have_said_so("bc"))
            time.sleep(0.3)
            _until(lambda: all_have_said_so("bc"))
            faults.append((time.time_ns() // 1_000_000, "b", "frozen"))
            stop_between_writes(processes["b"], Path(url.removeprefix("sqlite:///")))
            _until(lambda: led_by("c"))
            fault("b", "thawed", signal.SIGCONT)
            _until(lambda: led_by("bc"))
        for name in "bc":
            process = processes[name]
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(60) == 0
    finally:
        for process in processes.values():
            with process:  # closes its pipes, too
                process.kill()
    result = audit(url, "g", spark=spark, faults=faults)
    assert [p for p in result.promises if p.verdict in ("broken", "unsure")] == []
    assert result.exit_code == 0
    causes = {(row["cause"], row["from_member"].partition("~")[0]) for row in result.rows("takeovers")}
    assert {("crash", "a"), ("freeze", "b")} <= causes
    # Each seat that the dead and the frozen led was taken over, and not twice.
    assert len(result.rows("terms")) == len({row["token"] for row in result.rows("terms")})
    page = write_report(result, tmp_path / "report.html").read_text()
    assert all(role in page for role in ROLES)
