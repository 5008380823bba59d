"""What `pares sim` says of the world that it plays: short lines, with nothing left out that is set."""

from __future__ import annotations

import json

import pytest

from pares.cli.common.knobs import WIDTH, knob_lines
from pares.sim.runs import PROTOCOLS, knobs_of


def test_lines() -> None:
    knobs = {
        "seed": 7, "members": 3, "session_ms": 1000, "drift": 0.0, "storm": 14.066, "proof": False, "extreme": True,
        "weather": {"send": [500_000, 2_000_000], "lost": 0.0, "doubled": 0.15}, "acts": {}, "releases": [[1, 1]],
    }  # fmt: skip
    assert knob_lines(json.dumps(knobs)) == [
        "  members 3, session 1000 ms, storm 14.1, extreme, releases (1 1)",
        "  weather: send 0.5 to 2 ms, doubled 0.15",
        "  off or 0: drift, proof, acts",
    ]


@pytest.mark.parametrize("protocol", [*PROTOCOLS])
def test_no_line_is_long_and_every_knob_is_named(protocol: str) -> None:
    for seed in range(20):
        knobs = str(knobs_of(seed, protocol))
        lines = knob_lines(knobs)
        assert max(map(len, lines)) <= WIDTH
        said = " ".join(" ".join(lines).split())
        for name in json.loads(knobs).keys() - {"seed"}:
            assert name.removesuffix("_ms").removesuffix("_s").replace("_", " ") in said
