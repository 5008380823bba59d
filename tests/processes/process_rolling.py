"""Processes of several releases in one group, replaced one by one, and what the log says of it afterwards."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from process_judge import falling_tokens, overlaps, zombie_writes
from process_troupe import Troupe, Worker, interpreter, paths

TELL = """
import json, sys
import pares
from pares.ledger import open as open_ledger

with pares.Observer(sys.argv[1], group="g") as observer:
    moves = [(c.seat[0], c.token, c.holder, c.cause) for c in observer.read() if type(c).__name__ == "SeatChanged"]
    highest = observer.world.highest
ledger = open_ledger(sys.argv[1], readonly=True)
at, records = ledger.start(), []
while entries := ledger.read(at):
    records += [json.loads(entry.payload) for entry in entries]
    at = entries[-1].offset + 1
print(json.dumps({"moves": moves, "highest": highest, "records": [(r["m"], r["v"], r["k"], "mood" in r) for r in records]}))
"""


def replace(troupe: Troupe, worker: Worker, release: Path | None) -> None:
    """One process is ended as a deploy ends it, and one of another release comes in its place."""
    worker.end()
    troupe.bury(worker)
    troupe.enlist(release)
    troupe.until_all_led()


def roll(troupe: Troupe, release: Path | None) -> None:
    for worker in [*troupe.workers]:
        replace(troupe, worker, release)


def told(troupe: Troupe, release: Path | None) -> dict[str, Any]:
    """What the log says, by somebody of that release who can read it."""
    ran = subprocess.run(
        [interpreter(release), "-c", TELL, troupe.url],
        env={**paths(release), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def no_promise_is_broken(troupe: Troupe, log: dict[str, Any]) -> None:
    beliefs = troupe.all_beliefs()
    assert overlaps(beliefs) == []
    assert falling_tokens(beliefs) == []
    assert zombie_writes(troupe.writes()) == []
    decided = {(role, token): holder.partition("~")[0] for role, token, holder, _ in log["moves"] if holder}
    for belief in beliefs:
        assert decided.get((troupe.roles[belief.role], belief.token)) == belief.member, belief
    taken: set[str] = set()
    for role, _, holder, cause in log["moves"]:
        # From the moment it is first held each seat went from hand to hand, and was never free.
        assert holder is not None, f"{role} was free ({cause})"
        assert cause == "transfer" or role not in taken, (
            f"{role} was taken by a {cause}: its holder had not handed it over"
        )
        taken.add(role)


def versions(log: dict[str, Any]) -> Counter[int]:
    return Counter(version for _, version, _, _ in log["records"])


def longest_gap(troupe: Troupe) -> float:
    """Seconds that any role went without a leader between the first belief in it and the last."""
    longest = 0
    for role in range(len(troupe.roles)):
        found = sorted((b.first, b.last) for b in troupe.all_beliefs() if b.role == role)
        end = found[0][1]
        for first, last in found:
            longest, end = max(longest, first - end), max(end, last)
    return longest / 1e9


def said(troupe: Troupe, name: str, words: str) -> str:
    text = (troupe.folder / f"{name}.log").read_text()
    return text if words in text else ""
