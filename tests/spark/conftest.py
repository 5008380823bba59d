from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pares.spark.session import log_tail, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j, through which PySpark talks to the JVM, leaves its connections to the garbage collector, which warns of each. In
    these tests that may be; everywhere else a socket that nobody closed fails the test."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """One Spark for the whole run: starting one takes five seconds, and a first query of each kind as long again."""
    return session("pares-tests", conf={"spark.stage.maxConsecutiveAttempts": "1"})  # what work at most once asks for


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """If the JVM that these tests share has ended before them, many fail and none says why."""
    context: Any = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    process = getattr(getattr(context, "_gateway", None), "proc", None)
    if process is not None and process.poll() is not None:
        terminalreporter.write_line(
            f"ERROR Spark's JVM has ended with {process.returncode}; its last words:\n{log_tail(30)}"
        )
