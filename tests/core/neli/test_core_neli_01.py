"""NELI's members beside release 0.1, the real one, from the repository's own history: they never disagree where a role is."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from neli_bench import Bench, config, fast

from pares.core.events import Assigned, Restart
from pares.core.wire.hashes import stable_hash
from pares.core.wire.neli_records import PartitionCount, decode

ROOT = Path(__file__).parents[3]
RELEASE = "566bb0d"
"""0.1."""
NAMES = ("AAPL", "MSFT", "NVDA", "TSLA")
PLAY = """
import json, sys
from neli_bench import Bench, config
from pares.core.fast import Fast
from pares.core.protocol import Stop
from pares.core.shares import Assigned, Entered
said = json.load(sys.stdin)
bench = Bench.__new__(Bench)
bench.core = Fast(config(id=said["id"], name="old", partitions=len(said["logs"]), roles=tuple(said["roles"])))
bench.now, bench.effects, bench.numbers = 10**12 + 10**9, [], {}
bench.logs = [[(o, s, bytes.fromhex(p)) for o, s, p in log] for log in said["logs"]]
bench.ends = [len(log) for log in bench.logs]
for number, end in enumerate(bench.ends):
    bench.step(Entered(number, 0, end))
bench.read()
bench.step(Assigned(tuple(said["gets"])))
bench.read()
if not bench.core.over:
    bench.go()
json.dump({
    "stopped": [e.text for e in bench.effects if isinstance(e, Stop)],
    "leads": bench.leading(),
    "logs": [[(o, s, p.hex()) for o, s, p in log] for log in bench.logs],
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of 0.1, and its own bench for such members."""
    folder = tmp_path_factory.mktemp("release")
    words = ["git", "-C", str(ROOT), "archive", "--format=zip", RELEASE, "src/pares", "tests/core/neli_bench.py"]
    packed = subprocess.run(words, check=True, capture_output=True).stdout
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(folder)
    return folder


def play(
    release: Path, logs: list[list[tuple[int, int, bytes]]], gets: tuple[int, ...], id: str = "old~1"
) -> dict[str, Any]:
    """What a member of 0.1 does with these logs, when the group gives it these partitions."""
    said = {"id": id, "roles": NAMES, "gets": gets, "logs": [[(o, s, p.hex()) for o, s, p in log] for log in logs]}
    env = {**os.environ, "PYTHONPATH": f"{release / 'src'}{os.pathsep}{release / 'tests' / 'core'}"}
    ran = subprocess.run(
        [sys.executable, "-c", PLAY], input=json.dumps(said), env=env, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_0_1_refuses_to_begin_beside_members_that_go_by_numbers(release: Path) -> None:
    new = Bench(fast(config(partitions=2, roles=NAMES)))
    new.step(Assigned((0,)))
    new.read()
    new.go()
    assert set(new.leading()) == {"AAPL", "NVDA"}
    old = play(release, new.logs, (1,))
    assert old["leads"] == {}
    (text,) = old["stopped"]
    assert "runs 'fast-neli+numbers'" in text
    assert [len(log) for log in old["logs"]] == [len(log) for log in new.logs], "it has written nothing"


def test_beside_0_1_the_hash_is_in_force_and_both_lead_their_own(release: Path) -> None:
    """As in an upgrade one by one: the old one leads partition 1, the new one comes and is given partition 0."""
    old = play(release, [[], []], (1,))
    expected = {name for name in NAMES if stable_hash(name) % 2 == 1}
    assert set(old["leads"]) == expected
    new = Bench(fast(config(partitions=2, roles=NAMES)), idle=True)
    new.now += 10**9
    new.logs[:] = [[(o, s, bytes.fromhex(p)) for o, s, p in log] for log in old["logs"]]
    new.ends[:] = [len(log) for log in new.logs]
    new.go()
    new.step(Assigned((0,)))
    new.read()
    new.go()
    assert set(new.leading()) == set(NAMES) - expected
    assert {name: new.core.roles.partition(name) for name in NAMES} == {name: stable_hash(name) % 2 for name in NAMES}
    again = play(release, new.logs, (1,), "other~1")
    assert again["stopped"] == [], "another of 0.1 reads all that the new one has written, and begins beside it"


def test_an_old_one_that_has_begun_unseen_makes_the_new_one_begin_anew(release: Path) -> None:
    """Both begin at once on an empty log: the old one's width stands in it when the new one has announced itself."""
    old = play(release, [[], []], ())
    new = Bench(fast(config(partitions=2, roles=NAMES)))
    new.step(Assigned((0, 1)))
    new.read()
    new.go()
    assert new.leading()
    (width,) = [bytes.fromhex(p) for _, _, p in old["logs"][1] if isinstance(decode(bytes.fromhex(p)), PartitionCount)]
    new.land(width, 1)
    assert [type(e) for e in new.read() if isinstance(e, Restart)] == [Restart]
    assert not new.leading()
