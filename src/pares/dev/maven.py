"""Servers in Java from Maven Central: fetched once for each user, by the Ivy that PySpark's wheel brings along.

With Spark comes Ivy, and with Ivy there is no need for Maven, docker or a tarball to get a server. Ivy checks the checksum of
each jar. Rules, each with what breaks without it:

* A download is made in a draft folder, tried out there, and gets its name in one step. [Half a download that looks like a whole
  one is found by its victim, hours later.]
* Only one process of a user downloads at a time. [Ivy's cache does not stand two.]
* What "tried out" means: every jar is a whole archive, and a program of the server's own runs with them.
* Ivy's cache is kept until the download is complete, so that the next attempt goes on where this one broke off.
* What breaks off is attempted again at once, some times. [It takes hundreds of requests, to a server far away: of many fresh
  machines one fails.]
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from pares.core.errors import CapabilityError
from pares.dev.process import guarded
from pares.spark.java import JavaHome, require_java

SETTINGS_VARIABLE: Final = "PARES_IVY_SETTINGS"
"""Names an Ivy settings file of the user's own, for a mirror of Maven Central."""
_SIGNS: Final = ("[FAILED", "not found", "Server access", "xception", "!", "damaged", "Error:")
"""What Ivy's lines have in them (and Java's) that say what went wrong; "!" stands before the name of a file."""
_WORDS: Final = 600
_ATTEMPTS: Final = 3
_PAUSE: Final = 1.0
"""Seconds before the next attempt."""

Progress = Callable[[int, int], None]
"""Is told how far a download is: (steps done, steps in all)."""

_MODULE: Final = """\
<ivy-module version="2.0">
  <info organisation="pares" module="{name}" revision="{version}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}  </dependencies>
</ivy-module>
"""

# Ivy's own settings would look into the user's local Ivy folders too, and wait for a dead server for ever.
_SETTINGS: Final = """\
<ivysettings>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="20000" readTimeout="60000"/>
  </timeout-constraints>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" timeoutConstraint="patient"/></resolvers>
</ivysettings>
"""


class Bundle(NamedTuple):
    """The jars of a server."""

    title: str
    name: str
    version: str
    dependencies: str
    """As Ivy has them."""
    main: str
    """The server's own jar."""
    expected: int
    """How many jars come; only the progress bar relies on it."""
    sign: str
    """A file that `tried` leaves beside the jars."""
    tried: Callable[[JavaHome, Path], list[str] | None]
    """Runs a program of the server's with the jars in a folder. Returns what it said if that failed."""

    @property
    def place(self) -> Path:
        """Where the jars are, or will be. A folder that can be copied to a machine without access to Maven Central."""
        from platformdirs import user_cache_path

        return user_cache_path("pares", appauthor=False) / f"{self.name}-{self.version}"

    @property
    def is_here(self) -> bool:
        """Whether nothing needs to be downloaded."""
        return (self.place / self.sign).exists()

    def fetch(self, progress: Progress | None = None) -> Path:
        """The folder with the jars, downloaded if it is not there yet.

        Promised: what is returned is complete and has been run once; after an error nothing is left that looks like it. Raises
        `CapabilityError` if there is no Java, no PySpark, or the download fails; the message says what to do.
        """
        home = self.place
        if self.is_here:
            return home
        java = require_java(self.title)
        ivy = _ivy(self.title)
        home.parent.mkdir(parents=True, exist_ok=True)
        with alone(home.parent / f"{home.name}.lock"):
            if self.is_here:  # another process was faster
                return home
            for left in home.parent.glob(f"{home.name}-draft-*"):  # by a program that was killed
                shutil.rmtree(left, ignore_errors=True)
            cache = home.parent / f"{home.name}.downloads"
            draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-draft-", dir=home.parent))
            try:
                self._download(java, ivy, cache, draft, progress)
                self._try_out(java, cache, draft)
                draft.chmod(0o755)
                draft.rename(home)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            shutil.rmtree(cache, ignore_errors=True)
        return home

    def _download(self, java: JavaHome, ivy: Path, cache: Path, draft: Path, progress: Progress | None) -> None:
        cache.mkdir(exist_ok=True)
        module = _MODULE.format(name=self.name, version=self.version, dependencies=self.dependencies)
        (cache / "ivy.xml").write_text(module)
        if given := os.environ.get(SETTINGS_VARIABLE):
            settings = Path(given)
            if not settings.is_file():
                raise CapabilityError(
                    f"{SETTINGS_VARIABLE} names {given}, which is no file: name an Ivy settings file, or unset it"
                )
        else:
            settings = cache / "ivysettings.xml"
            settings.write_text(_SETTINGS)
        command = [str(java.java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        command += [*proxies(), f"-Divy.default.ivy.user.dir={cache / 'user'}", "-jar", str(ivy)]
        command += ["-settings", str(settings), "-cache", str(cache / "cache"), "-ivy", str(cache / "ivy.xml")]
        command += ["-confs", "default", "-types", "jar", "bundle"]
        command += ["-retrieve", str(draft / "[artifact]-[revision](-[classifier]).[ext]")]
        for left in reversed(range(_ATTEMPTS)):
            try:
                self._retrieve(command, draft, progress)
                return
            except CapabilityError:
                if left == 0:
                    raise
            time.sleep(_PAUSE)

    def _retrieve(self, command: list[str], draft: Path, progress: Progress | None) -> None:
        """One attempt."""
        said: list[str] = []
        found = loaded = 0
        with subprocess.Popen(
            guarded(command),  # it must not go on when nobody holds the lock any more
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    said.append(line.strip())
                    found += line.startswith("\tfound ")
                    loaded += "[SUCCESSFUL ]" in line
                    if progress is not None:
                        progress(min(found, self.expected) + min(loaded, self.expected), 2 * self.expected)
            except BaseException:
                process.kill()
                raise
        if process.returncode != 0:
            raise self._failed(said, f"Ivy ended with {process.returncode}")
        if not (draft / self.main).exists():
            raise self._failed(said, "the server's own jar did not come")
        if progress is not None:
            progress(2 * self.expected, 2 * self.expected)

    def _failed(self, said: list[str], what: str) -> CapabilityError:
        wrong = [line.strip(": ") for line in said if any(sign in line for sign in _SIGNS) and "SUCCESSFUL" not in line]
        last = " | ".join(dict.fromkeys(line for line in (wrong or said) if line)) or "it said nothing"
        last = last if len(last) <= _WORDS else f"{last[:_WORDS]} ..."
        return CapabilityError(
            f"the download of {self.title} {self.version} from Maven Central failed ({what}): {last}. Nothing half done was "
            f"kept. Try again; for a mirror let {SETTINGS_VARIABLE} name an Ivy settings file; for a machine without access "
            f"copy {self.place} from one that has it"
        )

    def _try_out(self, java: JavaHome, cache: Path, draft: Path) -> None:
        """Raises `CapabilityError` if a jar is damaged or the jars don't run."""
        for jar in sorted(draft.glob("*.jar")):
            if not _whole(jar):
                # Ivy took it for good, so it would come from Ivy's cache again.
                shutil.rmtree(cache, ignore_errors=True)
                raise self._failed([f"{jar.name} is damaged"], "a jar can't be read")
        said = self.tried(java, draft)
        if said is not None or not (draft / self.sign).exists():
            shutil.rmtree(cache, ignore_errors=True)
            raise self._failed(said or [], "its jars don't run")


def _ivy(title: str) -> Path:
    """Ivy's jar in PySpark's wheel. PySpark is not imported: only its place is asked for."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return jar
    raise CapabilityError(
        f"{title}'s jars are fetched by the Ivy inside PySpark, and there is no PySpark here: pip install 'pares[spark]'"
    )


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def proxies() -> list[str]:
    """Options that tell a Java of the proxies in the environment: it does not look there by itself."""
    options: list[str] = []
    for scheme, url in urllib.request.getproxies().items():
        address = urlsplit(url if "://" in url else f"http://{url}")
        if scheme in ("http", "https") and address.hostname:
            options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 80}"]
    return options


def _whole(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError):
        return False
