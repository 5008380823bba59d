"""A newcomer's first steps on each service, as docs/guide.md has them: its commands are run as written, in an environment that
has nothing else, in a home that is empty. From the network: `make fresh`, and `make brokers`."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from pares.dev import ports

pytestmark = [pytest.mark.processes, pytest.mark.brokers, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
PROJECT = ("src", "pyproject.toml", "README.md", "LICENSE")
OURS = ("PARES_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "XDG_", "AWS_", "PG")
"""Variables that tell of the environment in which these tests run."""
SECTIONS = re.findall(r"^## (On \w+)$", (ROOT / "docs" / "guide.md").read_text(), re.MULTILINE)
EMULATOR = ("5000", "moto_server")
"""The port of the emulator in the page, which may be taken here, and its command."""


class Fresh(NamedTuple):
    project: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    """Where everybody may enter: as root, PostgreSQL runs as another user."""
    with tempfile.TemporaryDirectory(prefix="pares-fresh-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield made(Path(folder))


def made(place: Path) -> Fresh:
    home, project, programs = place / "home", place / "project", place / "venv" / "bin"
    home.mkdir()
    for name in PROJECT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            project.mkdir(exist_ok=True)
            shutil.copy(source, project / name)
    nightly = project / "nightly.sh"
    nightly.write_text('#!/bin/sh\necho "under token $PARES_TOKEN"\n')
    nightly.chmod(0o755)
    # What was fetched once need not be again: the jars of servers are 44 and 230 MB, wheels more than that.
    for cache in (".cache/pares", ".cache/pip"):
        (Path.home() / cache).mkdir(parents=True, exist_ok=True)
        (home / cache).parent.mkdir(parents=True, exist_ok=True)
        (home / cache).symlink_to(Path.home() / cache)
    subprocess.run([sys.executable, "-m", "venv", programs.parent], check=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
    paths = os.pathsep.join([str(programs), kept["PATH"]])
    return Fresh(project, {**kept, "HOME": str(home), "PATH": paths, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def steps(section: str) -> str:
    """The section's first block: what is typed into a shell."""
    text = (ROOT / "docs" / "guide.md").read_text().partition(f"## {section}\n")[2]
    block = text.partition("```\n")[2].partition("```")[0]
    assert "pip install" in block
    assert "pares run" in block
    return block


@pytest.mark.parametrize("section", SECTIONS)
def test_first_steps(fresh: Fresh, section: str) -> None:
    block = steps(section)
    # It ends with 1 where it names a problem, as a server without a standby is one.
    assert "pares doctor --group jobs" in block
    script = block.replace("pares doctor --group jobs", "pares doctor --group jobs || test $? = 1")
    if EMULATOR[1] in block:
        script = script.replace(EMULATOR[0], str(ports.free(["127.0.0.1"])[0]))
    server = re.search(r"pares dev (\w+) up", block)
    ending = f"pares dev {server[1]} down || true" if server else ":"
    whole = f"set -e\ntrap '{ending}; kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"
    ran = subprocess.Popen(
        ["bash", "-c", whole],
        cwd=fresh.project,
        env=fresh.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, said = ran.communicate(timeout=1700)
    finally:
        if ran.poll() is None:
            os.killpg(ran.pid, signal.SIGKILL)
    assert ran.returncode == 0, out + said
    assert re.search(r"^under token \d+$", out, re.MULTILINE), out + said
    assert "verdict:" in out, out + said
