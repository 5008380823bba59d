"""Each example as a stranger runs it: the project is installed into an environment that has nothing else, with the extras that
examples/README.md names, in a home that is empty. From the network: `make fresh`, and `make brokers`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.brokers, pytest.mark.timeout(1800)]
ROOT = Path(__file__).parents[2]
PROJECT = ("src", "examples", "pyproject.toml", "README.md", "LICENSE")
OURS = ("PARES_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "XDG_")
"""Variables that tell of the environment in which these tests run."""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a module in such an environment, in a copy of the project."""
    place = tmp_path_factory.mktemp("fresh")
    home, project, python = place / "home", place / "project", place / "venv" / "bin" / "python"
    home.mkdir()
    for name in PROJECT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, project / name)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), *arguments]
        env = {**environment, "HOME": str(home), "PATH": os.pathsep.join([str(python.parent), environment["PATH"]])}
        return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)

    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    named = re.search(r"pip install '(\.\[[^']*\])'", (ROOT / "examples" / "README.md").read_text())
    assert named is not None, "the page says what to install"
    installed = run("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "-q", named[1])
    assert installed.returncode == 0, installed.stdout + installed.stderr
    found = run("-c", "import pares; print(pares.__file__)")
    assert found.stdout.startswith(str(place / "venv")), found
    return run


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["examples.web", "--deploys", "2", "--session", "5"], "never in two at once"),
        (["examples.shop_django", "--rounds", "1"], "no term wrote after a later one"),
        (["examples.beat", "--rounds", "1"], "never two beats at once"),
        (["examples.outbox", "--locks", "pares", "--seconds", "5"], "pares"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_an_example(fresh: Run, arguments: list[str], says: str) -> None:
    ran = fresh("-m", *arguments)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert says in ran.stdout
