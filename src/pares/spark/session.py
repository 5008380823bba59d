"""A local Spark that nobody notices: quick to be there, silent on the console, and gone with the process.

Rules, each with what breaks without it:

* The JVM is started on a thread of its own, as early as the caller likes (`prestart`): it takes five seconds, a first query
  of each kind takes more, and a person who has just watched takeovers of milliseconds should not wait for that. Started
  so, it runs at low priority, so that it costs nobody a lease.
* Whatever the JVM and its workers print goes to a file. Spark logs from three places (the launcher, log4j, the Python
  workers), and quieting each by its own setting forgets one; one redirected descriptor does not. The file is quoted when
  something fails.
* Workers run this very interpreter. Spark's own choice is the first ``python3`` on PATH, which lacks the packages of a
  virtual environment.
* Every folder is this process's own and all addresses are loopback: two runs at once never meet, nothing listens outside.
  What a killed process has left is removed by the next one: see `host.folder`.
* The JVM's classes come from an archive in the user's cache, if one is there or can be made: see `host.archive`.
* The session is made on a background thread also because Spark, on the main thread, puts a handler of its own in place of
  the program's for Ctrl-C.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pares.core.errors import CapabilityError
from pares.spark.host.archive import WRITING_SECONDS, Archive
from pares.spark.host.ending import may_be_killed
from pares.spark.host.folder import Folder, sweep
from pares.spark.host.kept import is_here
from pares.spark.host.telling import HEAP, JAVA, MEMORY, environment, heap_kib, settings_of
from pares.spark.java import find_java, require_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from pares.spark.java import JavaHome

log: Final = logging.getLogger("pares.spark.session")
T = TypeVar("T")

_LOG_LINES: Final = 15
_MEMORY_LINES: Final = 400
_EXIT_SECONDS: Final = 10.0
_NICE: Final = 10
_CLASSES: Final = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath", "spark.plugins")
_FOLDER: Final = "pares-spark-"
TRIES: Final = 5
_LOST: Final = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"
"""By what Spark's errors say so."""


class _Starting:
    """One start of Spark: under way, then either `session` or `error`."""

    def __init__(
        self,
        app: str,
        warm: Callable[[SparkSession], None] | None,
        settings: Mapping[str, str] | None = None,
        fill: Callable[[SparkSession], None] | None = None,
        *,
        nice: bool,
        long: bool = False,
    ) -> None:
        self._folder = Folder(_FOLDER)
        self.folder = self._folder.path
        self.log = self.folder / "spark.log"
        self.session: SparkSession | None = None
        self.error: BaseException | None = None
        self.hasty = False
        """Whether the JVM need not tidy up at its end."""
        self._archive: Archive | None = None
        self._app, self._warm, self._fill, self._nice = app, warm, fill, nice
        self._settings, self._long = dict(settings or {}), long
        self._done = threading.Event()
        threading.Thread(target=self._run, name="pares-spark-start", daemon=True).start()

    @property
    def _master(self) -> str:
        return str(self.session.sparkContext.master) if self.session is not None else ""

    @property
    def heap(self) -> str:
        return self._settings.get(HEAP, MEMORY)

    def wait(self) -> SparkSession:
        self._done.wait()
        if self.session is None:
            assert self.error is not None
            raise self.error
        return self.session

    def _run(self) -> None:
        if self._nice:
            _be_nice()
        try:
            self.session, self._archive = _start(self._app, self.folder, self.log, self._settings, long=self._long)
        except BaseException as error:
            self.error = error
        finally:
            self._done.set()
            sweep(_FOLDER)
        if self.session is not None and self._warm is not None:
            # What fails here fails again, and is reported, when it is wanted for good.
            with contextlib.suppress(Exception):
                self._warm(self.session)

    def end(self) -> None:
        """Stops the JVM, if there is one, and removes the folder; the log of a failed start is kept."""
        if self.session is not None:
            if self._fill is not None and self._archive is not None and self._archive.writing:
                with contextlib.suppress(Exception):
                    self._fill(self.session)
            # Not session.stop(), which takes half a second: the JVM leaves when its standard input ends.
            from pyspark import SparkContext

            # Its thread would report the end of its connection to the JVM as an error, on the console; and so would
            # every Python object that stands for one of the JVM's, when it is collected.
            accumulators: Any = getattr(self.session.sparkContext, "_accumulatorServer", None)
            if accumulators is not None:
                accumulators.handle_error = lambda request, client_address: None
            gateway: Any = SparkContext._gateway
            gateway._gateway_client.is_connected = False
            if (process := getattr(gateway, "proc", None)) is not None:
                archive = self._archive
                writing = archive is not None and archive.writing
                with contextlib.suppress(Exception):
                    if self.hasty and not writing and may_be_killed(process, self._master):
                        process.kill()
                    process.stdin.close()
                    process.wait(WRITING_SECONDS if writing else _EXIT_SECONDS)
                if archive is not None:
                    archive.ended(well=process.returncode == 0)
        if self.error is None or not self.log.exists():
            self._folder.remove()
        else:
            self._folder.leave()


_lock = threading.Lock()
_current: _Starting | None = None


def prestart(app: str = "pares", warm: Callable[[SparkSession], None] | None = None) -> None:
    """Begins to start Spark on a background thread and returns at once; `session` then waits only for what is left.

    `warm` is called with the session, on that thread, as soon as there is one: a first query of each kind takes seconds, a
    second does not. The JVM gives way to other processes where the system lets it, so that a user who goes on working
    meanwhile is not disturbed. Called again, or after `session`, it does nothing. What goes wrong is raised by `session`.
    """
    _begin(app, warm, nice=True)


def _begin(
    app: str,
    warm: Callable[[SparkSession], None] | None,
    settings: Mapping[str, str] | None = None,
    fill: Callable[[SparkSession], None] | None = None,
    *,
    nice: bool,
    long: bool = False,
) -> _Starting:
    global _current
    with _lock:
        if _current is None:
            _current = _Starting(app, warm, settings, fill, nice=nice, long=long)
            atexit.register(_current.end)
        return _current


def session(
    app: str = "pares",
    *,
    memory: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    long: bool = False,
) -> SparkSession:
    """The Spark session of this process, started if need be; one that the program already has is used as it is.

    `memory`  the heap of the driver, such as `4g` (default `MEMORY`)
    `master`  where Spark runs, such as `local[2]` or `spark://HOST:PORT` (default: here, on up to four cores)
    `conf`    settings of Spark's by name; they win over those that are made here
    `long`    what it is for takes minutes: the JVM compiles for speed what it does often. For less, that is a late start

    They count only for a session that is started here.

    Promised of a session started here: nothing on the console, no web interface, no address but 127.0.0.1, UTC, workers of
    this interpreter, everything temporary removed when the process ends. Raises `CapabilityError` if there is no
    pyspark, no Java, or Spark does not start; the message quotes Spark's own log. Raises `ConfigError` for a heap with which
    Spark does not start.
    """
    return started(app, memory=memory, master=master, conf=conf, long=long)


def started(
    app: str = "pares",
    *,
    memory: str | None = None,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    long: bool = False,
    meanwhile: Callable[[], object] | None = None,
    fill: Callable[[SparkSession], None] | None = None,
) -> SparkSession:
    """`session`, for callers that have something to do while Spark starts (`meanwhile`), or at its end: `fill` is called if the
    JVM is about to write down which classes it has loaded, so that it loads what later processes need. [a session that is asked
    nothing, and all later ones load them one by one]"""
    if _current is None and (existing := _existing()) is not None:
        return existing
    given = {HEAP: memory, "spark.master": master}
    settings = {**{name: value for name, value in given.items() if value is not None}, **(conf or {})}
    heap_kib(settings)
    starting = _begin(app, None, settings, fill, nice=False, long=long)
    if meanwhile is not None:
        meanwhile()
    return starting.wait()


def end_in_haste() -> None:
    """Has the JVM of the session started here end with this process without tidying up, which takes it half a second, if
    nothing is lost by that. For commands that have said all there is to say; a program may have queries of its own, and must
    not call this."""
    if _current is not None:
        _current.hasty = True


def require() -> None:
    """Raises `CapabilityError` if a session can't be had for want of pyspark, of what that needs, or of a Java: before anybody
    is told to wait for one. Costs their import, which a session needs anyway, and a run of `java`."""
    _import()
    if _existing() is None:
        require_java()


def has_java() -> bool:
    """Whether a session can be had: there is one, or a Java to start one."""
    return _existing() is not None or find_java() is not None


def require_rows() -> None:
    """Raises `CapabilityError` without what an audit in plain Python needs: the extra `spark`, and no Java."""
    _import()


def _import() -> None:
    try:
        import pyarrow  # noqa: F401
        import pyspark.sql  # noqa: F401

        if find_spec("pandas") is None:  # Spark asks for it, and its import takes a second that nothing here needs
            raise ModuleNotFoundError("No module named 'pandas'")
    except ImportError as error:
        raise CapabilityError(f"Spark is not installed here ({error}): pip install 'pares[spark]'") from None


def spare_pandas() -> None:
    """Has Arrow and Spark find no pandas in this process, which neither needs here: both import it, for half a second, to see
    whether values are of its kinds. For commands; a program that gives them such values must not call this. The program's own
    `import pandas` works on."""
    if "pandas" in sys.modules:
        return
    hiding = _Hiding()
    sys.meta_path.insert(0, hiding)
    try:
        import pyarrow as pa
        import pyspark.testing.utils  # noqa: F401  # py4j's converters ask it of each list

        pa.array([None])  # both look once
    finally:
        sys.meta_path.remove(hiding)


class _Hiding:
    """Among the finders of modules: there is no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=name)


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The frame of an Arrow table. Spark's own `createDataFrame` of a session imports pandas, to see whether that is what it
    was given, which takes the driver a second."""
    from pyspark.sql.pandas.conversion import SparkConversionMixin

    if isinstance(spark, SparkConversionMixin):  # and no session of Spark Connect
        found: Any = SparkConversionMixin.createDataFrame(spark, table)  # pyright: ignore
        return found
    if table.num_rows == 0:  # of such a table Spark Connect asks for the schema, though the table has one
        from pyspark.sql.pandas.types import from_arrow_schema

        return spark.createDataFrame([], from_arrow_schema(table.schema))
    return spark.createDataFrame(table)


def settled(frame: DataFrame) -> DataFrame:
    """The frame with its rows worked out now, once. Executors keep them. Where these are processes of their own, two keep each
    row, if there are two by then: what one alone has kept is gone with it, and Spark can't work it out again (`while_kept`).
    [one executor of twenty is lost, and with it the audit]"""
    from pyspark import StorageLevel

    # As bytes, which Spark counts rightly, and puts on its disk when it has to. [as objects, those of a million terms take a
    # heap that it takes for free]
    if is_here(frame.sparkSession):
        return frame.localCheckpoint(eager=True, storageLevel=StorageLevel(True, True, False, False))
    # As it keeps them by itself, but twice.
    return frame.localCheckpoint(eager=True, storageLevel=StorageLevel(True, True, False, True, 2))


def needing(frame: DataFrame, needed: object) -> DataFrame:
    """The frame; what it is made of is there for as long as it is. What is made of this one has to be told of it, too."""
    before: tuple[object, ...] = vars(frame).get("_pares_needs", ())
    if not any(one is needed for one in before):
        frame._pares_needs = (*before, needed)  # type: ignore[attr-defined]
    return frame


def while_kept(do: Callable[[], T]) -> T:
    """What `do` returns; it is done again if executors are lost with what they alone have kept of it (`settled`)."""
    for left in reversed(range(TRIES)):
        try:
            return do()
        except Exception as error:
            if not left or _LOST not in str(error):
                raise
            log.warning("executors of Spark were lost with what they have kept: it is worked out again")
    raise AssertionError("the last try returns or raises")


def started_here(spark: SparkSession) -> bool:
    """Whether the session was started by `session` or `prestart`, and is not one that the program made itself."""
    return _current is not None and _current.session is spark


def out_of_memory() -> str | None:
    """What to say of a JVM, started here, that has ended for want of memory; None if it has not."""
    if _current is None or _current.session is None or "OutOfMemoryError" not in _tail(_current.log, _MEMORY_LINES):
        return None
    heap = _current.heap
    return (
        f"Spark's heap of {heap} is too small for this log. Give it more: pares audit --memory 4g, or in Python "
        "pares.spark.session.session(memory='4g') before the audit"
    )


def log_file() -> Path | None:
    """Where the JVM's output of the session started here goes; None if none was started."""
    return None if _current is None else _current.log


def log_tail(lines: int = _LOG_LINES) -> str:
    """The last lines that Spark has logged, for an error message."""
    return "" if _current is None else _tail(_current.log, lines)


def _existing() -> SparkSession | None:
    """A session that the program made itself. Asks nothing of pyspark if it was never imported."""
    if "pyspark.sql" not in sys.modules:
        return None
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() or SparkSession._instantiatedSession


def _be_nice() -> None:
    """Lowers the priority of this thread, and with it of the processes that it starts; on Linux, not of other threads."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _start(
    app: str, folder: Path, log: Path, settings: Mapping[str, str], *, long: bool
) -> tuple[SparkSession, Archive | None]:
    _import()
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    java = require_java()
    # It writes each failed query to the console, on its way to the caller, which is told by the exception.
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    conf = SparkConf(loadDefaults=False)
    made, archive = settings_of(app, folder, long=long), _archive(java, settings)
    if archive is not None:
        made[JAVA] += archive.option()
    if JAVA in settings:
        settings = {**settings, JAVA: f"{made[JAVA]} {settings[JAVA]}"}
    for key, value in {**made, **settings}.items():
        conf.set(key, value)
    try:
        with environment(java.home), log.open("ab") as output:
            gateway = SparkContext._gateway or launch_gateway(conf, {"stdout": output, "stderr": output})
            context = SparkContext(conf=conf, gateway=gateway)
            return SparkSession(context), archive
    except Exception as error:
        said = _tail(log, _LOG_LINES) or str(error)
        raise CapabilityError(
            f"Spark did not start with Java {java.version} at {java.home} (from {java.source}).\n"
            f"Its last words, of {log}:\n{said}"
        ) from error


def _archive(java: JavaHome, settings: Mapping[str, str]) -> Archive | None:
    """None where the JVM gets classes of its own: an archive fits one path of classes only."""
    import pyspark

    if any(key in settings for key in _CLASSES):
        return None
    # From 32 GiB on a JVM has wider references, and can't map what was written with narrow ones.
    wide = heap_kib(settings) >= 32 << 20
    return Archive(java, Path(pyspark.__file__).parent / "jars", f"{pyspark.__version__}{' wide' if wide else ''}")


def _tail(log: Path, lines: int) -> str:
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
