"""The benchmark of histories: its logs are lawful, and its page keeps what was not measured again. Nothing is measured here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from bench.figures import between, put
from bench.history.__main__ import BEGIN, END, Options, cases, merged
from bench.history.commands import A_TERM
from bench.history.logs import FEW, GROUP, MEMBERS, Writer, written
from bench.history.processes import Peak, descendants, jvm_of, memory
from bench_run import ROOT

from pares.core.wire.reader import Reader
from pares.core.wire.records import Snapshot, decode
from pares.ledger import open as open_ledger
from pares.spark.facts.base import Fact
from pares.spark.facts.cuts import cuts
from pares.spark.facts.folding import Partition

pytestmark = pytest.mark.timeless


def _facts(url: str) -> dict[str | None, list[Fact]]:
    with closing(open_ledger(url)) as ledger:
        entries = list(ledger.read(0, 0, 1_000_000))
    fold, found = Partition(None, 0, 0, claims=True), dict[str | None, list[Fact]]()
    for group, facts in [*fold.feed(entries), *fold.finish()]:
        found.setdefault(group, []).extend(facts)
    return found


@pytest.mark.parametrize("groups", [1, 30])
def test_a_log_is_lawful_and_of_as_many_groups_as_asked_for(tmp_path: Path, groups: int) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    written(url, 6000, lambda _: None, groups=groups, moves=40).close()
    found = _facts(url)
    assert set(found) == ({GROUP} if groups == 1 else {f"{GROUP}{number:04}" for number in range(groups)})
    for facts in found.values():
        kinds = Counter(fact.kind for fact in facts)
        assert all(fact.counted for fact in facts if fact.kind == "record")
        assert kinds["opened"] == kinds["gained"] - kinds["lost"], "each seat has its first holder, or a later one"
        assert not {"bad", "hole", "defect", "adrift"} & set(kinds)


@pytest.mark.parametrize("groups", [1, 30])
def test_its_groups_write_snapshots_as_often_as_members_do(tmp_path: Path, groups: int) -> None:
    """Each of a world that a reader of all has come to; behind them a log of one group can be cut into ranges."""
    url = f"sqlite:///{tmp_path}/log.db"
    written(url, 60_000 if groups == 1 else 6000, lambda _: None, groups=groups, moves=40).close()
    with closing(open_ledger(url)) as ledger:
        entries = list(ledger.read(0, 0, 100_000))
        cut = cuts(ledger, 0, 0, len(entries), 2 if groups == 1 else 1)
    written_by = Counter(record.g for entry in entries if type(record := decode(entry.payload)) is Snapshot)
    names = {decode(entry.payload).g for entry in entries}
    of_each = len(entries) // groups
    each = 24 * (MEMBERS if groups == 1 else FEW)
    assert written_by.keys() == names
    assert all(0.5 * of_each / each < many < 1.5 * of_each / each for many in written_by.values())
    assert len(cut) == (1 if groups == 1 else 0)
    for name in names:
        reader = Reader(name)
        reader.attach(0, 0)
        reader.feed(entries)
        assert reader.defects == []
        assert reader.verified > entries[-1].offset - 5 * each * groups


def test_nearly_every_record_can_be_about_a_term(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/log.db"
    with closing(Writer(url, roles=200)) as writer:
        begun = writer.ledger.end()
        for _ in range(10):
            writer.append(100, moves=150)
        more = writer.ledger.end() - begun
    (facts,) = _facts(url).values()
    terms = sum(fact.kind == "gained" for fact in facts) - 201
    assert terms > 0.8 * more / A_TERM


def test_what_was_not_measured_again_stays(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nNot measured yet.\n{END}\nafter\n")
    put(page, merged(between(page, BEGIN, END), {"follow": "f1", "ledger": "l1\n\n| a |"}), BEGIN, END)
    put(page, merged(between(page, BEGIN, END), {"start": "s1"}), BEGIN, END)
    put(page, merged(between(page, BEGIN, END), {"ledger": "l2"}), BEGIN, END)
    parts = {"start": "s1", "ledger": "l2", "follow": "f1"}
    text = "\n\n".join(f"<!-- case {name} -->\n{said}" for name, said in parts.items())
    assert page.read_text() == f"before\n{BEGIN}\n{text}\n{END}\nafter\n"
    assert "<!-- case" not in merged("", {})
    document = (ROOT / "docs" / "bench.md").read_text()
    assert document.count(BEGIN) == document.count(END) == 1
    assert all(f"*{name}*" in document for name in cases(Options())), "each case is told of"


def test_of_several_jvms_the_largest_counts(tmp_path: Path) -> None:
    """The first one that a start of Spark has is gone in a moment."""
    fake = tmp_path / "java"
    fake.symlink_to(Path(sys.executable).resolve())
    small, large = "import time; time.sleep(60)", "held = bytearray(64 * 2**20); import time; time.sleep(60)"
    code = "import subprocess, sys; both = [subprocess.Popen([sys.argv[1], '-S', '-c', one]) for one in sys.argv[2:]]; "
    code += "print(*(one.pid for one in both), flush=True); sys.stdin.read(); [one.kill() for one in both]"
    command = [sys.executable, "-c", code, str(fake), small, large]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        for _ in range(600):
            if jvm_of(process.pid) == pids[1] and (memory(pids[1]) or 0) > 64:
                break
            time.sleep(0.05)
        assert jvm_of(process.pid) == pids[1]
        process.communicate("")


def test_memory_is_of_the_process_and_of_its_jvm(tmp_path: Path) -> None:
    fake = tmp_path / "java"
    fake.symlink_to("/bin/sleep")
    code = f"import subprocess, sys; subprocess.run([{str(fake)!r}, '60'])"
    jvm: int | None = None
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            for _ in range(600):
                if (jvm := jvm_of(process.pid)) is not None:
                    break
                time.sleep(0.05)
            assert jvm in descendants(process.pid)
            assert (memory(jvm) or 0) > 0
            peak = Peak(process.pid)
            while not (peak.driver and peak.jvm):
                time.sleep(0.05)
            peak.end()
        finally:
            if jvm is not None:
                os.kill(jvm, 9)
            process.kill()
    assert memory(process.pid) is None
    assert memory(None) is None
    assert descendants(process.pid) == []
