"""R11: release 0.1 and this one read a log of version 1, or a mixed one, alike, and so byte for byte in snapshots.

Release 0.1 is taken from this repository's own history. It runs in a process of its own.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from core_authors import Entry, Pen, Plain, raw
from core_histories import MAD, SENSIBLE, Author, Move

from pares.core import records as R
from pares.core.world import World

ROOT = Path(__file__).parents[2]
COMMIT = "566bb0d"
FOLDS = """
import base64, json, sys
from pares.core import fold
from pares.core.records import BadRecord, decode
from pares.core.world import World

def folded(entries):
    world, places = World(), {}
    for offset, payload in entries:
        try:
            record = decode(base64.b64decode(payload))
        except BadRecord:
            continue
        if record.g == "g" and fold.fold(world, offset, record, []) and fold.at_place(world, offset, record, []):
            places[offset] = world.dump()
    return {"world": world.dump(), "places": places}

given = json.load(open(sys.argv[1]))
json.dump([folded(entries) for entries in given["logs"]], open(sys.argv[2], "w"))
for text in given["worlds"]:
    assert World.load(text).dump() == text
"""


@pytest.fixture(scope="module")
def first_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with release 0.1's package."""
    folder = tmp_path_factory.mktemp("first")
    packed = subprocess.run(
        ["git", "archive", "--output", str(folder / "src.tar"), COMMIT, "src"], cwd=ROOT, capture_output=True, text=True
    )
    if packed.returncode:
        pytest.fail(
            f"commit {COMMIT} (release 0.1) is not in this clone: it is shallow, or no clone at all. "
            f"Fetch the whole history (git fetch --unshallow) to run this test. git says: {packed.stderr}"
        )
    with tarfile.open(folder / "src.tar") as tar:
        tar.extractall(folder, filter="data")
    return folder / "src"


def by_first_release(release: Path, logs: list[list[Entry]], worlds: list[str], folder: Path) -> list[dict[str, Any]]:
    """What 0.1 makes of these logs; and it loads these worlds."""
    given, found = folder / "given.json", folder / "found.json"
    texts = [[(offset, base64.b64encode(payload).decode()) for offset, _, payload in log] for log in logs]
    given.write_text(json.dumps({"logs": texts, "worlds": worlds}))
    ran = subprocess.run(
        [sys.executable, "-c", FOLDS, str(given), str(found)],
        env={"PYTHONPATH": str(release), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(found.read_text())


def mixed(seed: int) -> list[Entry]:
    """A history in which members of both releases write, the newer ones also what the older ones have no word for."""
    rng = random.Random(seed)
    names = [*SENSIBLE, *MAD]
    weights = [*SENSIBLE.values(), *MAD.values()]
    author = Author()
    old = Pen(author.paper, "old~1").join()  # so nothing of version 2 counts, for as long as it is there
    new = Pen(author.paper, "new~1", reads=2).join()
    author.catch_up()
    for name in rng.choices(names, weights, k=120):
        if name in ("genesis", "version"):
            continue
        move: Move = (name, rng.randrange(5), rng.randrange(8), rng.randrange(8))
        author.play([move])
        chance = rng.randrange(8)
        envelope = {"g": "g", "m": "new~1", "b": author.base, "s": 1}
        if chance == 0:
            new.write(R.Ready, ready=bool(rng.randrange(2)), v=rng.choice((1, 1, 2)))
        elif chance == 1:
            new.n += 1
            author.paper.put(raw(k="ready", v=1, n=new.n, any="thing", **envelope))
        elif chance == 2:
            join = {"k": "join", "v": rng.choice((1, 2)), "n": 1, "name": "x", "session": 1000, "reads": 2}
            author.paper.put(raw(**{**envelope, **join, "m": f"x~{rng.random()}", "ready": bool(rng.randrange(2))}))
        elif chance == 3:
            old.beat()
        author.catch_up()
    return author.paper.entries


def test_r11_a_mixed_log_is_one_world_for_both_at_every_place(first_release: Path, tmp_path: Path) -> None:
    logs = [mixed(seed) for seed in range(60)]
    mine = [Plain().read_all(log) for log in logs]
    assert all(plain.world.highest == 1 for plain in mine)
    assert sum(len(plain.places) for plain in mine) > 60
    worlds = [text for plain in mine for text in plain.places.values()]
    theirs = by_first_release(first_release, logs, worlds, tmp_path)
    for plain, other in zip(mine, theirs, strict=True):
        assert plain.world.dump() == other["world"]
        assert {offset - 1: text for offset, text in plain.places.items()} == {
            int(k): v for k, v in other["places"].items()
        }
        assert World.load(other["world"]).dump() == other["world"]


def test_r11_when_version_2_has_counted_0_1_knows_that_it_must_be_upgraded(first_release: Path, tmp_path: Path) -> None:
    author = Author()
    new = Pen(author.paper, "new~1", reads=2).join()
    new.write(R.Ready, ready=False, v=2)
    (found,) = by_first_release(first_release, [author.paper.entries], [], tmp_path)
    assert json.loads(found["world"])["highest"] == 2
