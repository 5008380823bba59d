"""From the first process to the report: the stage, with Spark's start hidden behind it, and nothing left over.

Spark's first audit takes several times as long as its second (classes to load, queries to compile, workers to start). So
while the demo still runs, Spark audits what there is by then, at low priority, and forgets it: nobody waits for the JVM at the
end, and the members, which are what is to be seen, have the processors when they want them.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.markup import escape

from pares.core.errors import CapabilityError
from pares.demo.law import law_of
from pares.demo.location import Where, prepared
from pares.demo.screen import Screen
from pares.demo.stage import Options, Stage, new_folder, remove_folder
from pares.demo.summary import Summary, audited, summarise

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pares.spark.result import AuditResult

NICE: Final = 5


def run(options: Options, screen: Screen, report: Path | None) -> Summary:
    """Plays the demo, has it audited (with `report` None: not), and returns the numbers.

    Promised: whatever happens, Ctrl-C included, every process that was started is gone when this returns or raises, and so
    is the folder with the table and, unless the options name one, the ledger (see `location`).
    """
    options.check()
    law = law_of(options.protocol, overlap=options.overlap)
    why_not = "it was not asked for (--no-audit)" if report is None else law.why_no_audit or _why_no_spark()
    if why_not is not None and report is not None:
        screen.note(f"No audit at the end: {escape(why_not)}\n")
    folder = new_folder()
    try:
        partitions = options.roles if law.shares_out else 1
        with prepared(options.ledger, folder, screen, partitions) as where:
            return _play(options, where, screen, folder, report, why_not)
    finally:
        remove_folder(folder)


def _play(
    options: Options, where: Where, screen: Screen, folder: Path, report: Path | None, why_not: str | None
) -> Summary:
    """The run and its audit, on a log that is there. `why_not`: why there can be no audit."""
    stage = Stage(options, where, screen, folder)
    rehearsal = None
    try:
        if why_not is None:
            rehearsal = Rehearsal(where.url, stage.group, stage.quotes_file)
        outcome = stage.play()
    finally:
        stage.close()
    result = written = None
    if rehearsal is not None and report is not None:
        with screen.busy("\nThe members are gone. Spark audits the log and the table of quotes ..."):
            try:
                rehearsal.end()
                result = audited(outcome.ledger, outcome.group, outcome.quotes)
                written = _report(result, report)
            except CapabilityError as error:
                why_not = str(error)
    return summarise(outcome, result, written, why_not, kept=where.kept)


class Rehearsal:
    """Starts Spark and audits once what there is, on a thread of its own. What comes of it is nobody's; nor are its errors:
    the audit that counts will meet them again."""

    def __init__(self, ledger: str, group: str, quotes: Path) -> None:
        self._case = (ledger, group, quotes)
        self._session: SparkSession | None = None
        self._thread = threading.Thread(target=self._run, name="rehearsal", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Has Spark free for the audit that counts: on a slow machine what is not done by now is called off."""
        while self._thread.is_alive():
            if self._session is not None:
                self._session.sparkContext.cancelAllJobs()
            self._thread.join(0.2)

    def _run(self) -> None:
        if sys.platform == "linux":
            os.nice(NICE)  # there it is the thread's own, and inherited by what the thread starts: the JVM
        try:
            from pares.spark.session import session

            self._session = session("pares demo")
            audited(*self._case)
        except Exception:
            pass


def _why_no_spark() -> str | None:
    """Why the run can't be audited here, None if it can; costs a start of `java`, not of Spark."""
    for module in ("pyspark", "pandas", "pyarrow"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install 'pares[spark]'"
    from pares.spark.java import find_java, no_java_message

    return None if find_java() is not None else no_java_message()


def _report(result: AuditResult, path: Path) -> Path:
    from pares.spark.report import write_report

    return write_report(result, path, "The price feeds of the demo").resolve()
