"""A Kafka broker's jars: 46 of them, 44 MB, from Maven Central (see `dev.maven`).

What the broker's own tool writes when it formats a folder is the same for every broker but for three ids, so it is kept beside
the jars, and no broker has to be formatted by a slow program again.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

from pares.dev.maven import SETTINGS_VARIABLE, Bundle, Progress, alone, proxies
from pares.spark.java import JavaHome

__all__ = [
    "CHECKPOINT",
    "EXPECTED",
    "SCALA",
    "SETTINGS_VARIABLE",
    "VERSION",
    "Progress",
    "alone",
    "fetch",
    "is_here",
    "place",
    "proxies",
]

VERSION: Final = "4.3.1"
SCALA: Final = "2.13"
EXPECTED: Final = 46
CHECKPOINT: Final = "bootstrap.checkpoint"
_DEPENDENCIES: Final = f"""\
    <dependency org="org.apache.kafka" name="kafka_{SCALA}" rev="{VERSION}" conf="default->default"/>
    <!-- What the broker's slf4j 1.7 speaks to. Version 2 would be mute. -->
    <dependency org="org.slf4j" name="slf4j-simple" rev="1.7.36" conf="default->default"/>
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
    return _JARS.place


def is_here() -> bool:
    """Whether nothing needs to be downloaded."""
    return _JARS.is_here


def fetch(progress: Progress | None = None) -> Path:
    """The folder with the jars, downloaded if it is not there yet (half a minute to some minutes, 44 MB). Raises as
    `Bundle.fetch`."""
    return _JARS.fetch(progress)


def _tried(java: JavaHome, draft: Path) -> list[str] | None:
    """Keeps what the broker's own tool has formatted."""
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
        return [*done.stdout.splitlines(), *done.stderr.splitlines()]
    properties.unlink()
    (data / CHECKPOINT).rename(draft / CHECKPOINT)
    shutil.rmtree(data)
    return None


_JARS: Final = Bundle(
    "Kafka", "kafka", VERSION, _DEPENDENCIES, f"kafka_{SCALA}-{VERSION}.jar", EXPECTED, CHECKPOINT, _tried
)
