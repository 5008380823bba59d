"""One node: how its folder is made, its command line, and the archive that lets it start in half the time.

A JVM that starts a broker spends most of its first two seconds on loading and checking the same classes as the last time.
It can write down what it knows of them when it ends (class data sharing), and then begin there: one node is up after one
second instead of two. The archive (48 MB) belongs to one build of Java and to these very jars, so it is made on the machine,
once, by a broker that runs for this only. A Java that can't do it costs nothing but that second.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pares.core.errors import ParesError
from pares.dev import ports, process
from pares.dev.kafka import jars, probe
from pares.dev.kafka.settings import Security, properties, text
from pares.dev.place import Place
from pares.spark.java import JavaHome

LOG: Final = "broker.log"
ERRORS: Final = (" ERROR ", "Exception in thread", "Error: ", "Error occurred")
"""What a broker's line has in it that says what went wrong."""
_PATIENCE: Final = 60.0


def write_folder(folder: Path, place: Place, settings: dict[str, str], cluster: str, home: Path) -> Path:
    """Makes a node's folder ready for a start, keeps the data in it, and returns its settings file.

    To an empty data folder it does what Kafka's own tool would do: two files, one of them the tool's own work.
    """
    data = data_of(folder)
    data.mkdir(parents=True, exist_ok=True)
    if not (data / "meta.properties").exists():
        shutil.copyfile(home / jars.CHECKPOINT, data / jars.CHECKPOINT)
        lines = ["version=1", f"cluster.id={cluster}", f"node.id={place.id}", f"directory.id={short_uuid()}"]
        (data / "meta.properties").write_text("\n".join(lines) + "\n")
    config = folder / "server.properties"
    config.touch(mode=0o600)  # it may hold passwords
    config.write_text(text(settings))
    return config


def data_of(folder: Path) -> Path:
    return folder / "data"


def command(java: JavaHome, home: Path, config: Path, heap_mb: int, jvm: Sequence[str] = ()) -> list[str]:
    """A JVM that is small and quickly there: what it does for minutes is not worth compiling for hours."""
    options = ["-Xms96m", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
    options += ["-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
    options += ["-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"]
    # Named one by one: the archive is good for jars in the same order only, and a folder's is nobody's promise.
    classpath = ":".join(str(jar) for jar in sorted(home.glob("*.jar")))
    return [str(java.java), *options, *jvm, "-cp", classpath, "kafka.Kafka", str(config)]


def short_uuid() -> str:
    """A random id as Kafka writes them: none that begins with a dash, which its tools would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        if not text.startswith("-"):
            return text


def quickly(java: JavaHome, home: Path) -> list[str]:
    """The options by which this Java uses its archive, which is made if there is none yet (five seconds); none if it can't."""
    try:
        stamp = f"{java.java.resolve()} {java.java.stat().st_mtime_ns} {java.version} {home}"
        archive = home / "quick" / f"{hashlib.sha256(stamp.encode()).hexdigest()[:16]}.jsa"
        if not archive.exists():
            archive.parent.mkdir(exist_ok=True)
            with jars.alone(archive.parent / "lock"):
                if not archive.exists():
                    _make_archive(java, home, archive)
        usable = archive.stat().st_size > 0
    except OSError:
        return []
    return (
        [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if usable else []
    )


def _make_archive(java: JavaHome, home: Path, archive: Path) -> None:
    """Leaves an empty file, which says that it was tried, if nothing comes of it."""
    folder = Path(tempfile.mkdtemp(prefix="pares-kafka-"))
    draft = folder / "draft.jsa"
    try:
        place = Place(1, "127.0.0.1", *ports.free(["127.0.0.1"] * 2))
        config = write_folder(
            folder, place, properties(place, [place], data_of(folder), Security(), {}), short_uuid(), home
        )
        argv = command(java, home, config, 320, [f"-XX:ArchiveClassesAtExit={draft}"])
        node = process.start(argv, log=folder / LOG, folder=folder, survive=False)
        try:
            until = time.monotonic() + _PATIENCE
            while node.ended() is None and time.monotonic() < until and not _serves(place):
                time.sleep(0.1)
            node.identity.signal(signal.SIGTERM)
            node.wait(_PATIENCE)
        finally:
            node.identity.signal(signal.SIGKILL)
            node.wait(_PATIENCE)
        if not draft.exists():
            draft.touch()
        # Into its place in one step, though it may come from another file system.
        copy = archive.with_suffix(f".{os.getpid()}")
        shutil.copyfile(draft, copy)
        copy.replace(archive)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serves(place: Place) -> bool:
    try:
        return place.id in probe.look(place, Security(), timeout=1.0).brokers
    except ParesError:
        return False
