"""What the Makefile's examples install: what they run on, and no Spark."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from doc_pages import ROOT

INSTALLED = {
    "shop": ". 'django",
    "web": "'.[frameworks,postgres-server]'",
    "beat": "'.[frameworks,postgres-server]'",
    "outbox": "'.[frameworks,postgres-server]'",
}


def told(tmp_path: Path, *targets: str) -> str:
    """The commands that make would run from nothing; it runs none of them."""
    command = ["make", "--dry-run", "--always-make", "--no-print-directory", f"VENV={tmp_path}/venv", *targets]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.parametrize("example", INSTALLED)
def test_an_example_installs_no_spark(tmp_path: Path, example: str) -> None:
    (line,) = re.findall(r".* pip install .*", told(tmp_path, example))
    assert INSTALLED[example] in line
    assert "spark" not in line.lower()


def test_the_demo_does(tmp_path: Path) -> None:
    """So the test above would see it."""
    assert re.search(r" pip install .*pyspark==.*spark", told(tmp_path, "demo"))
