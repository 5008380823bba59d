"""Hypothesis profiles, and `--rewrite` for the golden scenarios.

`ci` always tries the same examples, so that a run which fails can be run again. `thorough` (HYPOTHESIS_PROFILE=thorough) tries
many more, and new ones each time.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "ci", max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "thorough", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write the golden scenarios anew, for review of the diff")
