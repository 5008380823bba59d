"""FileFence: a chain of manifests in which tokens never fall, whoever writes at once and whenever a writer dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pares.core.errors import CapabilityError, ConfigError, ParesError, Stale
from pares.fence import Commit, FileFence, FolderStore
from pares.fence.file import encoded


@dataclass(frozen=True)
class Term:
    role: str
    seat: int
    token: int


def tokens(fence: FileFence, role: str = "r", seat: int = 0) -> list[int]:
    return [commit.token for commit in fence.read(role, seat)]


def test_commits_are_read_in_order_and_a_lower_token_is_refused(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    assert fence.last("r") is None
    assert list(fence.read("r")) == []
    fence.commit(Term("r", 0, 5), {"rows": [1, 2]})
    fence.commit(Term("r", 0, 5), {"rows": [3]})
    fence.commit(Term("r", 0, 7))
    for refused in (fence.check, fence.stage, fence.commit):
        with pytest.raises(Stale) as stale:
            refused(Term("r", 0, 6))
        assert (stale.value.token, stale.value.seen) == (6, 7)
    assert [(c.number, c.token, c.payload) for c in FileFence(tmp_path).read("r")] == [
        (0, 5, {"rows": [1, 2]}),
        (1, 5, {"rows": [3]}),
        (2, 7, {}),
    ]
    assert [c.number for c in fence.read("r", start=2)] == [2]


def test_staged_files_are_nothing_until_a_manifest_names_them(tmp_path: Path) -> None:
    fence, term = FileFence(tmp_path, group="g"), Term("r", 0, 5)
    area = fence.stage(term)
    (area / "day=1").mkdir()
    (area / "day=1" / "a.parquet").write_bytes(b"abc")
    (area / "b.parquet").write_bytes(b"")
    assert fence.last("r") is None
    commit = fence.commit(term, files=[p for p in area.rglob("*") if p.is_file()])
    assert commit.files == ((f"data/{area.name}/b.parquet", 0), (f"data/{area.name}/day=1/a.parquet", 3))
    assert [(fence.place("r") / path).read_bytes() for path, _ in commit.files] == [b"", b"abc"]


def test_files_that_can_not_be_committed(tmp_path: Path) -> None:
    fence, term = FileFence(tmp_path), Term("r", 0, 5)
    area = fence.stage(term)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("x")
    (area / "link").symlink_to(elsewhere)
    (area.parent / "loose").write_text("x")
    of_another_seat = fence.stage(Term("r", 1, 5)) / "x"
    of_another_seat.write_text("x")
    for file in (elsewhere, area / "missing", area, area / "link", area.parent / "loose", of_another_seat):
        with pytest.raises(ConfigError, match=r"stage\(\)"):
            fence.commit(term, files=[file])
    with pytest.raises(ConfigError, match="JSON"):
        fence.commit(term, {"x": object()})
    assert fence.last("r") is None


def test_seats_and_groups_are_apart_whatever_their_names(tmp_path: Path) -> None:
    names = ["r", "R", "a/b", "a_b", "..", ".", "x" * 200, "ü" * 200, "a\\b", "no-role"]
    places: set[str] = set()
    for group in (None, "g", "G", "no-group"):
        fence = FileFence(tmp_path, group)
        for number, name in enumerate(names):
            fence.commit(Term(name, 0, number))
            fence.commit(Term(name, 1, 0))
            place = fence.place(name)
            assert place.parent.parent.parent == tmp_path
            assert all(len(part) < 100 for part in place.relative_to(tmp_path).parts)
            places.add(str(place).lower())
        assert [tokens(fence, name) for name in names] == [[number] for number in range(len(names))]
    assert len(places) == 4 * len(names)
    assert encoded("group", None) not in {encoded("group", "no-group"), encoded("group", "")}


def test_sweep_removes_only_what_can_never_be_committed(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    areas = [fence.stage(Term("r", 0, token)) for token in (1, 2, 3)]
    for area in areas:
        (area / "x").write_text("x")
    assert fence.sweep("r") == 0
    fence.commit(Term("r", 0, 1), files=[areas[0] / "x"])
    assert fence.sweep("r") == 0
    fence.commit(Term("r", 0, 3))
    assert fence.sweep("r") == 1
    assert [area.exists() for area in areas] == [True, False, True]
    assert fence.sweep("nobody") == 0


def test_what_a_fence_did_not_write_is_reported(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    for token in (5, 6, 7):
        fence.commit(Term("r", 0, token))
    manifests = sorted((fence.place("r") / "manifest").iterdir())
    assert [path.name for path in manifests] == [f"{number:020d}.json" for number in range(3)]
    good = manifests[1].read_bytes()
    for bad, message in (
        (good.replace(b'"token":6', b'"token":4'), "token 4 after 5"),
        (good.replace(b'"role":"r"', b'"role":"s"'), "another seat"),
        (good.replace(b'"number":1', b'"number":2'), "another seat or number"),
        (good[:-1], "no manifest"),
        (b"\xff", "no manifest"),
        (b"", "no manifest"),
    ):
        manifests[1].write_bytes(bad)
        with pytest.raises(ParesError, match=message):
            list(FileFence(tmp_path).read("r"))


def test_a_place_without_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(CapabilityError, match="hard links"):
        FileFence(tmp_path).commit(Term("r", 0, 1))
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == []


def test_a_link_whose_answer_got_lost_is_not_taken_for_another_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def retried(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", retried)
    fence = FileFence(tmp_path)
    assert fence.commit(Term("r", 0, 1)).number == 0
    assert fence.commit(Term("r", 0, 1)).number == 1


@given(length=st.integers(0, 70), known=st.integers(0, 70))
@settings(max_examples=60, deadline=None)
def test_the_newest_commit_is_found_from_wherever_one_looks(length: int, known: int) -> None:
    class Memory:
        def __init__(self) -> None:
            self.objects: dict[str, bytes] = {}
            self.reads = 0

        def create(self, name: str, content: bytes) -> bool:
            return self.objects.setdefault(name, content) is content

        def read(self, name: str) -> bytes | None:
            self.reads += 1
            return self.objects.get(name)

    store = Memory()
    writer, reader = FileFence("unused", store=store), FileFence("unused", store=store)
    for number in range(length):
        writer.commit(Term("r", 0, number // 3))
        if number == known:
            reader.last("r")
    store.reads = 0
    newest = reader.last("r")
    assert (newest.number if newest else -1) == length - 1
    assert store.reads <= 16


class Interrupted(FolderStore):
    """The real store, with something happening between a writer's look at the newest manifest and its own."""

    def __init__(self, folder: Path, meanwhile: list[Callable[[], None]]) -> None:
        super().__init__(folder)
        self.meanwhile = meanwhile

    def create(self, name: str, content: bytes) -> bool:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return super().create(name, content)


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4)), max_size=8
    )
)
@settings(max_examples=150, deadline=None)
def test_tokens_never_fall_however_writers_interleave(plan: list[tuple[int, list[tuple[int, bool]]]]) -> None:
    """Each writer with its token, and those that come between its look and its commit, each of which may be a new process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        others = {token: FileFence(folder) for token in range(6)}
        done: list[int] = []

        def commit(fence: FileFence, token: int) -> None:
            stale: Stale | None = None
            try:
                made = fence.commit(Term("r", 0, token))
            except Stale as error:
                stale = error
            else:
                assert made.number == len(done)
                assert not done or token >= done[-1]
                done.append(token)
            assert stale is None or stale.seen == max(done) > token

        for token, between in plan:
            meanwhile: list[Callable[[], None]] = [
                lambda other=other, fresh=fresh: commit(FileFence(folder) if fresh else others[other], other)
                for other, fresh in between
            ]
            commit(FileFence(folder, store=Interrupted(folder, meanwhile)), token)
        assert tokens(FileFence(folder)) == done == sorted(done)


WRITER = """
import sys
from dataclasses import dataclass
from pathlib import Path
from pares.core.errors import Stale
from pares.fence import FileFence

@dataclass
class Term:
    role: str
    seat: int
    token: int

fence, term, count = FileFence(sys.argv[1]), Term("r", 0, int(sys.argv[2])), int(sys.argv[3])
print("ready", flush=True)
for number in range(count):
    try:
        area = fence.stage(term)
        for part in range(3):
            (area / f"{part}").write_bytes(b"x" * 1000)
        commit = fence.commit(term, {"count": number}, files=area.iterdir())
        print("wrote", commit.number, flush=True)
    except Stale as stale:
        print("stale", stale.seen, flush=True)
        break
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, *map(str, arguments)], stdout=subprocess.PIPE, text=True)


def whole(fence: FileFence) -> list[Commit]:
    """The chain, after a look at every file that it names."""
    chain = list(fence.read("r"))
    for commit in chain:
        for path, size in commit.files:
            assert (fence.place("r") / path).stat().st_size == size == 1000
        assert len(commit.files) == 3
    return chain


@pytest.mark.processes
def test_a_frozen_leader_wakes_up_and_is_refused(tmp_path: Path) -> None:
    zombie = start(tmp_path, 5, 10**9)
    assert zombie.stdout is not None
    assert zombie.stdout.readline() == "ready\n"
    assert [zombie.stdout.readline() for _ in range(3)] == ["wrote 0\n", "wrote 1\n", "wrote 2\n"]
    os.kill(zombie.pid, signal.SIGSTOP)
    os.waitpid(zombie.pid, os.WUNTRACED)
    successor = start(tmp_path, 6, 5)
    assert successor.communicate(timeout=60)[0].count("wrote") == 5
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.communicate(timeout=60)[0].endswith("stale 6\n")
    chain = [commit.token for commit in whole(FileFence(tmp_path))]
    assert chain == sorted(chain)
    assert chain.count(6) == 5


@pytest.mark.processes
def test_writers_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    writers = [start(tmp_path, 7, 25) for _ in range(3)]
    outputs = [writer.communicate(timeout=120)[0].split("wrote ")[1:] for writer in writers]
    numbers = [[int(number) for number in output] for output in outputs]
    assert sorted(number for own in numbers for number in own) == list(range(75))
    chain = whole(FileFence(tmp_path))
    for own in numbers:
        assert [chain[number].payload["count"] for number in own] == list(range(25))


@pytest.mark.processes
def test_a_writer_killed_at_any_moment_leaves_a_whole_chain(tmp_path: Path) -> None:
    fence = FileFence(tmp_path)
    for token in range(6):
        writer = start(tmp_path, token, 10**9)
        assert writer.stdout is not None
        while not writer.stdout.readline().startswith("wrote"):
            pass
        for _ in range(token * 3):
            writer.stdout.readline()
        writer.kill()
        writer.communicate()
        assert fence.last("r") == whole(fence)[-1]
    fence.commit(Term("r", 0, 9))
    fence.sweep("r")
    named = {path for commit in fence.read("r") for path, _ in commit.files}
    left = {
        path.relative_to(fence.place("r")).as_posix()
        for path in (fence.place("r") / "data").rglob("*")
        if path.is_file()
    }
    assert left == named
