"""Celery beat behind `pares run`, on the real thing: once, whoever is killed."""

from __future__ import annotations

from pathlib import Path

import pytest
from examples.beat.app import EVERY
from examples.beat.run import in_order, run


@pytest.mark.processes
@pytest.mark.parametrize("orderly", [False, True])
def test_beat_runs_once_and_goes_on_elsewhere(tmp_path: Path, orderly: bool) -> None:
    found = run(tmp_path, rounds=2, session=5.0, orderly=orderly)
    tokens = [token for _, token in found]
    assert in_order(found), found
    assert len(set(tokens)) == 3
    # Beat sends what has become due while nobody led once, not once for each time; and never more than its schedule says. (Its
    # first message may have been kept waiting for a processor; then the next ones follow sooner.)
    for token in set(tokens):
        times = [at for at, of in found if of == token]
        assert len(times) <= (times[-1] - times[0]) / EVERY + 4


def test_what_is_in_order() -> None:
    assert in_order([(1.0, 5), (2.0, 5), (3.0, 7)])
    assert not in_order([])
    assert not in_order([(1.0, 5), (2.0, 7), (3.0, 5)])
