"""The consumers that are killed and frozen, in a short form: with the fence every order is booked, and once."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from examples.troupe import ROOT

pytestmark = pytest.mark.processes


def test_with_the_fence_every_order_is_booked_once() -> None:
    arguments = ["--seconds", "5", "--pace", "1.2", "--rate", "200", "--session", "0.6", "--seed", "3", "--json"]
    ran = subprocess.run(
        [sys.executable, "-m", "examples.consume", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["kills"] + found["freezes"] >= 3
    assert found["orders"] == found["booked"] > 0
    assert (found["missing"], found["twice"]) == (0, 0)
