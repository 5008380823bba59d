"""A Kafka broker's jars: fetched once for each user, by the Ivy that PySpark's wheel brings along.

With Spark comes Ivy, and with Ivy there is no need for Maven, docker or a tarball to get a broker: 46 jars, 44 MB, from
Maven Central. Ivy checks the checksum of each. Rules, each with what breaks without it:

* A download is made in a draft folder, tried out there, and gets its name in one step. [Half a download that looks like a whole
  one is found by its victim, hours later.]
* Only one process of a user downloads at a time. [Ivy's cache does not stand two.]
* What "tried out" means: every jar is a whole archive, and the broker's own tool formats a folder with them. What that tool
  writes is the same for every broker but for three ids, so it is kept beside the jars, and no broker has to be formatted by a
  slow program again.
* Ivy's cache is kept until the download is complete, so that the next attempt goes on where this one broke off.
* What breaks off is attempted again at once, some times. [It takes two hundred requests, to a server far away: of many fresh
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
from typing import Final
from urllib.parse import urlsplit

from pares.core.errors import CapabilityError
from pares.dev.process import guarded
from pares.spark.java import JavaHome, require_java

VERSION: Final = "4.3.1"
SCALA: Final = "2.13"
EXPECTED: Final = 46
"""How many jars come; only the progress bar relies on it."""
SETTINGS_VARIABLE: Final = "PARES_IVY_SETTINGS"
"""Names an Ivy settings file of the user's own, for a mirror of Maven Central."""
CHECKPOINT: Final = "bootstrap.checkpoint"
_SIGNS: Final = ("[FAILED", "not found", "Server access", "xception", "!", "damaged", "Error:")
"""What Ivy's lines have in them (and Java's) that say what went wrong; "!" stands before the name of a file."""
_WORDS: Final = 600
_ATTEMPTS: Final = 3
_PAUSE: Final = 1.0
"""Seconds before the next attempt."""

Progress = Callable[[int, int], None]
"""Is told how far a download is: (steps done, steps in all)."""

_IVY: Final = f"""\
<ivy-module version="2.0">
  <info organisation="pares" module="kafka-broker" revision="{VERSION}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_{SCALA}" rev="{VERSION}" conf="default->default"/>
    <!-- What the broker's slf4j 1.7 speaks to. Version 2 would be mute. -->
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
  </dependencies>
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

_PROBE: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:1
listeners=CLIENTS://127.0.0.1:2,CONTROLLER://127.0.0.1:1
controller.listener.names=CONTROLLER
inter.broker.listener.name=CLIENTS
listener.security.protocol.map=CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={folder}
"""


def place() -> Path:
    """Where the jars are, or will be. A folder that can be copied to a machine without access to Maven Central."""
    from platformdirs import user_cache_path

    return user_cache_path("pares", appauthor=False) / f"kafka-{VERSION}"


def is_here() -> bool:
    """Whether nothing needs to be downloaded."""
    return (place() / CHECKPOINT).exists()


def fetch(progress: Progress | None = None) -> Path:
    """The folder with the jars, downloaded if it is not there yet (half a minute to some minutes, 44 MB).

    Promised: what is returned is complete and has been run once; after an error nothing is left that looks like it. Raises
    `CapabilityError` if there is no Java, no PySpark, or the download fails; the message says what to do.
    """
    home = place()
    if is_here():
        return home
    java = require_java("Kafka")
    ivy = _ivy()
    home.parent.mkdir(parents=True, exist_ok=True)
    with alone(home.parent / f"{home.name}.lock"):
        if is_here():  # another process was faster
            return home
        for left in home.parent.glob(f"{home.name}-draft-*"):  # by a program that was killed
            shutil.rmtree(left, ignore_errors=True)
        cache = home.parent / f"{home.name}.downloads"
        draft = Path(tempfile.mkdtemp(prefix=f"{home.name}-draft-", dir=home.parent))
        try:
            _download(java, ivy, cache, draft, progress)
            _try_out(java, cache, draft)
            draft.chmod(0o755)
            draft.rename(home)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        shutil.rmtree(cache, ignore_errors=True)
    return home


def _ivy() -> Path:
    """Ivy's jar in PySpark's wheel. PySpark is not imported: only its place is asked for."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for jar in sorted((Path(folder) / "jars").glob("ivy-*.jar")):
            return jar
    raise CapabilityError(
        "Kafka's jars are fetched by the Ivy inside PySpark, and there is no PySpark here: pip install 'pares[spark]'"
    )


@contextlib.contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(java: JavaHome, ivy: Path, cache: Path, draft: Path, progress: Progress | None) -> None:
    cache.mkdir(exist_ok=True)
    (cache / "ivy.xml").write_text(_IVY)
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
            _retrieve(command, draft, progress)
            return
        except CapabilityError:
            if left == 0:
                raise
        time.sleep(_PAUSE)


def _retrieve(command: list[str], draft: Path, progress: Progress | None) -> None:
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
                    progress(min(found, EXPECTED) + min(loaded, EXPECTED), 2 * EXPECTED)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise _failed(said, f"Ivy ended with {process.returncode}")
    if not list(draft.glob(f"kafka_{SCALA}-{VERSION}.jar")):
        raise _failed(said, "the broker's own jar did not come")
    if progress is not None:
        progress(2 * EXPECTED, 2 * EXPECTED)


def _failed(said: list[str], what: str) -> CapabilityError:
    wrong = [line.strip(": ") for line in said if any(sign in line for sign in _SIGNS) and "SUCCESSFUL" not in line]
    last = " | ".join(dict.fromkeys(line for line in (wrong or said) if line)) or "it said nothing"
    last = last if len(last) <= _WORDS else f"{last[:_WORDS]} ..."
    return CapabilityError(
        f"the download of Kafka {VERSION} from Maven Central failed ({what}): {last}. Nothing half done was kept. "
        f"Try again; for a mirror let {SETTINGS_VARIABLE} name an Ivy settings file; for a machine without access copy "
        f"{place()} from one that has it"
    )


def proxies() -> list[str]:
    """Options that tell a Java of the proxies in the environment: it does not look there by itself."""
    options: list[str] = []
    for scheme, url in urllib.request.getproxies().items():
        address = urlsplit(url if "://" in url else f"http://{url}")
        if scheme in ("http", "https") and address.hostname:
            options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={address.port or 80}"]
    return options


def _try_out(java: JavaHome, cache: Path, draft: Path) -> None:
    """Raises `CapabilityError` if a jar is damaged or the jars don't run; keeps what the broker's own tool has formatted."""
    for jar in sorted(draft.glob("*.jar")):
        if not _whole(jar):
            # Ivy took it for good, so it would come from Ivy's cache again.
            shutil.rmtree(cache, ignore_errors=True)
            raise _failed([f"{jar.name} is damaged"], "a jar can't be read")
    data, properties = draft / "probe", draft / "probe.properties"
    properties.write_text(_PROBE.format(folder=data))
    tool = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(properties)]
    command = [str(java.java), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    done = subprocess.run(
        [*command, "-cp", str(draft / "*"), *tool],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not (data / CHECKPOINT).exists():
        shutil.rmtree(cache, ignore_errors=True)
        raise _failed([*done.stdout.splitlines(), *done.stderr.splitlines()], "its jars don't run")
    properties.unlink()
    (data / CHECKPOINT).rename(draft / CHECKPOINT)
    shutil.rmtree(data)


def _whole(jar: Path) -> bool:
    try:
        with zipfile.ZipFile(jar) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError):
        return False
