"""A Pulsar's jars: some 320 of them, 230 MB, from Maven Central (see `dev.maven`).

Three of BookKeeper's modules are packed as archives of another kind (`nar`), which Ivy passes over: their jars are named.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from pares.dev.maven import Bundle
from pares.spark.java import JavaHome

VERSION: Final = "4.0.7"
SIGN: Final = "complete"
_BOOKKEEPER: Final = "4.17.2"
_NAMED: Final = ("circe-checksum", "cpu-affinity", "native-io")
_DEPENDENCIES: Final = f"""\
    <dependency org="org.apache.pulsar" name="pulsar-broker" rev="{VERSION}" conf="default->default"/>
""" + "".join(
    f"""\
    <dependency org="org.apache.bookkeeper" name="{name}" rev="{_BOOKKEEPER}" conf="default->master" transitive="false">
      <artifact name="{name}" type="jar" ext="jar"/>
    </dependency>
"""
    for name in _NAMED
)


def _tried(java: JavaHome, draft: Path) -> list[str] | None:
    """Has the server say what its command line may be."""
    done = subprocess.run(
        [str(java.java), "-Xmx128m", "-cp", str(draft / "*"), "org.apache.pulsar.PulsarStandaloneStarter", "--help"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    said = [*done.stdout.splitlines(), *done.stderr.splitlines()]
    if not any("--bookkeeper-dir" in line for line in said):
        return said
    if missing := [name for name in _NAMED if not (draft / f"{name}-{_BOOKKEEPER}.jar").exists()]:
        return [f"{missing[0]} did not come"]
    (draft / SIGN).touch()
    return None


JARS: Final = Bundle("Pulsar", "pulsar", VERSION, _DEPENDENCIES, f"pulsar-broker-{VERSION}.jar", 318, SIGN, _tried)
