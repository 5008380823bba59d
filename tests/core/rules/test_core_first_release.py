"""R11: release 0.1 and this one read a log of version 1, or a mixed one, alike, and so byte for byte in snapshots.

Release 0.1 is taken from this repository's own history. It runs in a process of its own.
"""

from __future__ import annotations

import base64
import json
import random
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from core_authors import Entry, Pen, Plain, raw
from core_histories import MAD, SENSIBLE, Author, Move

from pares.core.wire import fold
from pares.core.wire import records as R
from pares.core.wire.world import World

ROOT = Path(__file__).parents[3]
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
        ["git", "archive", "--output", str(folder / "src.zip"), COMMIT, "src"], cwd=ROOT, capture_output=True, text=True
    )
    if packed.returncode:
        pytest.fail(
            f"commit {COMMIT} (release 0.1) is not in this clone: it is shallow, or no clone at all. "
            f"Fetch the whole history (git fetch --unshallow) to run this test. git says: {packed.stderr}"
        )
    with zipfile.ZipFile(folder / "src.zip") as archive:
        archive.extractall(folder)
    return folder / "src"


def by_first_release(
    release: Path, logs: list[list[Entry]], worlds: list[str], folder: Path, script: str = FOLDS
) -> list[Any]:
    """What 0.1 makes of these logs; and it loads these worlds."""
    given, found = folder / "given.json", folder / "found.json"
    texts = [[(offset, base64.b64encode(payload).decode()) for offset, _, payload in log] for log in logs]
    given.write_text(json.dumps({"logs": texts, "worlds": worlds}))
    ran = subprocess.run(
        [sys.executable, "-c", script, str(given), str(found)],
        env={"PYTHONPATH": str(release), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(found.read_text())


JUDGES = """
import base64, json, sys
from pares.core import fold
from pares.core.records import BadRecord, decode
from pares.core.world import World

def judged(entries):
    world, found = World(), []
    for offset, payload in entries:
        try:
            record = decode(base64.b64decode(payload))
        except BadRecord:
            found.append([False, world.highest])
            continue
        counted = record.g == "g" and fold.fold(world, offset, record, [])
        if counted:
            fold.at_place(world, offset, record, [])
        found.append([counted, world.highest])
    return found

json.dump([judged(entries) for entries in json.load(open(sys.argv[1]))["logs"]], open(sys.argv[2], "w"))
"""


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


WRONG: list[dict[str, Any]] = [
    {"k": "ready", "ready": "perhaps"},
    {"k": "ready"},
    {"k": "ready", "ready": True, "extra": 1},
    {"k": "ready", "ready": True, "v": 0},
    {"k": "join", "name": 7, "session": 1000, "reads": 2, "ready": True},
    {"k": "join", "name": "x", "session": 1000, "reads": 2, "ready": True},
    {"k": "join", "name": "x", "session": 1000, "reads": 2},
    {"k": "beat", "marks": "none"},
    {"k": "beat", "extra": 1},
    {"k": "beat", "extra": 1, "v": 0},
    {"k": "claim", "seat": ["A", 0], "over": "nobody"},
    {"k": "leave", "marks": 1},
    {"k": "obituary"},
    {"k": "snapshot", "upto": -1},
    {"k": "genesis", "base": "new"},
    {"k": "poem", "text": "of any form"},
]
"""Records that a sound member never writes."""


def hostile(seed: int) -> list[Entry]:
    """All members read version 2, none has written it, and somebody writes in their name what has the wrong form."""
    rng = random.Random(seed)
    author = Author()
    pens = [Pen(author.paper, id, reads=2).join() for id in ("a~1", "b~1")]
    for _ in range(30):
        pen = rng.choice(pens)
        if rng.random() < 0.5:
            pen.beat()
            continue
        fields = rng.choice(WRONG)
        number = pen.n + rng.choice((0, 1, 1))
        pen.n = max(pen.n, number)
        envelope = {"v": rng.choice((1, 2)), "g": "g", "m": rng.choice((pen.id, pen.id, "x~1")), "s": 1}
        author.paper.put(raw(**{**envelope, "n": number, "b": author.base, **fields}))
    return author.paper.entries


def test_r11_both_say_at_the_same_record_that_version_2_has_counted(first_release: Path, tmp_path: Path) -> None:
    """Up to that record they count the same ones, whatever stands there. [0.1 stops, or a world is at version 2 that is not]"""
    logs = [hostile(seed) for seed in range(300)]
    theirs = by_first_release(first_release, logs, [], tmp_path, JUDGES)
    reached = 0
    for seed, (log, found) in enumerate(zip(logs, theirs, strict=True)):
        mine, world = list[list[Any]](), World()
        for offset, _, payload in log:
            try:
                record = R.decode(payload)
            except R.BadRecord:
                mine.append([False, world.highest])
                continue
            counted = fold.fold(world, offset, record, [])
            if counted:
                fold.at_place(world, offset, record, [])
            mine.append([counted, world.highest])
        end = next((i for i, (_, highest) in enumerate(mine) if highest > 1), len(mine) - 1)
        reached += end < len(mine) - 1
        assert mine[: end + 1] == found[: end + 1], f"seed {seed}"
    assert reached > 100
