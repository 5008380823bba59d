"""A group of eight processes on a file ledger, leaders of which are killed: led again each time, and tokens rise."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import pares
from pares.core.wire.records import Did, decode

MEMBER = """
import sys, time
import pares
url, name = sys.argv[1:]
with pares.Member(url, group="g", roles=["A", "B", "C"], name=name, session=2.0) as member:
    print("in", flush=True)
    sys.stdin.readline()
"""
HANG = 90.0


def start(url: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MEMBER, url, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


@pytest.mark.processes
def test_leaders_that_are_killed(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/ledger?segment=8192"
    members = {f"m{number}": start(url, f"m{number}") for number in range(8)}
    killed: set[str] = set()
    seen: list[int] = []
    try:
        with pares.Observer(url, group="g") as observer:
            for _ in range(4):
                until = time.monotonic() + HANG
                while True:
                    leaders = {role: observer.leader(role) for role in "ABC"}
                    if all(leader is not None and leader.name not in killed for leader in leaders.values()):
                        break
                    assert time.monotonic() < until, leaders
                    time.sleep(0.02)
                leader = leaders["A"]
                assert leader is not None
                seen.append(leader.token)
                killed.add(leader.name)
                members[leader.name].kill()
                members[leader.name].wait()
        for name in members.keys() - killed:
            members[name].communicate("\n", timeout=HANG)
            assert members[name].returncode == 0
    finally:
        for member in members.values():
            member.kill()
            member.wait()
            for pipe in (member.stdin, member.stdout):
                assert pipe is not None
                pipe.close()
    with closing(pares.open(url, readonly=True)) as ledger:
        records: list[tuple[int, object]] = []
        at = 0
        while at < ledger.end():
            for entry in ledger.read(at):
                records.append((entry.offset, decode(entry.payload)))
                at = entry.offset + 1
    assert [offset for offset, _ in records] == list(range(len(records)))
    terms = [record for _, record in records if isinstance(record, Did) and record.what == "lead"]
    for role in "ABC":
        tokens = [record.token for record in terms if record.seat == (role, 0)]
        assert tokens == sorted({*tokens}), "terms begin in the order of their tokens, none twice"
    assert seen == sorted({*seen}), "a leader that is killed is followed under a higher token"
