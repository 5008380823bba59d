"""Opening a file ledger: what is refused in plain words, what is left alone, and those that only look."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from file_tools import opened, refused, segments
from ledger_stages import as_ordinary_user, in_child
from log_tools import payloads

import pares.ledger
from pares.core.errors import CapabilityError, ConfigError, ForkedError
from pares.ledger.local import mounts
from pares.ledger.registry import path_of


def everything(path: Path) -> dict[str, tuple[int, int]]:
    return {str(each): (each.lstat().st_mtime_ns, each.lstat().st_size) for each in [path, *path.rglob("*")]}


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a b").mkdir()
    for url in (f"file://{tmp_path}/a%20b/x", f"file:{tmp_path}/a%20b/x", "file:a%20b/x", "FILE:a%20b/../a%20b/x"):
        with closing(pares.ledger.open(url)) as ledger:
            assert ledger.url == f"file://{tmp_path}/a%20b/x"
            assert path_of(ledger.url) == str(tmp_path / "a b" / "x")
    for url, says in (
        ("file://", "names no folder"),
        ("file:", "names no folder"),
        ("file:///", "names no folder"),
        ("file://host/x", "names a host: write three slashes"),
        ("file:x%00y", "NUL"),
        ("file:x?segment=10", "segment=10"),
        ("file:x?sync=sometimes", "urgent, always, never"),
        ("file:x?readonly=1&create=1", "readonly makes nothing"),
    ):
        with pytest.raises(ConfigError, match=says):
            pares.ledger.open(url)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a b"]


def test_what_is_there_and_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", ConfigError, "is no folder")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    refused(tmp_path / "full", ConfigError, "holds other files (thesis.txt)")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "ledger").write_text("my ledger of debts")
    refused(tmp_path / "other", ConfigError, "no mark of a file ledger")
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "ledger").write_text('{"pares":"file ledger","layout":2,"id":"x","partitions":1}')
    refused(tmp_path / "newer", CapabilityError, "made by a newer pares")
    refused(tmp_path / "no" / "x", ConfigError, "there is no folder")
    refused(tmp_path / "x", ConfigError, "readonly makes nothing", readonly=True)
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", ConfigError, "holds no ledger, and readonly makes nothing", readonly=True)
    assert [*(tmp_path / "empty").iterdir()] == []
    opened(tmp_path / "empty").close()
    opened(tmp_path / "deep" / "er" / "x", create=True).close()


def test_a_network_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(f"1 1 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / {tmp_path} rw - nfs4 server:/x rw\n")
    monkeypatch.setattr(mounts, "MOUNTINFO", table)
    refused(tmp_path / "x", CapabilityError, "on a network file system (nfs4")


def test_no_rights(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(opened(path)) as ledger:
        ledger.append(b"a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.rglob("*") if each.is_file()} == {0o600}
    path.chmod(0o500)

    def looks() -> None:
        refused(path, ConfigError, "can't be written by this process")
        with closing(opened(path, readonly=True)) as ledger:
            assert payloads(ledger) == [b"a"]

    as_ordinary_user(looks)
    path.chmod(0o000)
    as_ordinary_user(lambda: refused(path, ConfigError, "can't be"))
    path.chmod(0o700)


def test_files_are_made_as_the_mark_is(tmp_path: Path) -> None:
    """To share a ledger with a Unix group it is enough to change what is there once."""
    path = tmp_path / "x"
    with closing(opened(path)) as ledger:
        ledger.append(b"a")
    for each in [path, *path.rglob("*")]:
        each.chmod(0o2770 if each.is_dir() else 0o660)
    before = os.umask(0o077)
    try:
        with closing(opened(path, segment=1024)) as ledger:
            for _ in range(3):
                ledger.append(b"x" * 1000)
            ledger.topic("t").append(b"x")
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(each.stat().st_mode) for each in path.rglob("*") if each.is_file()}
    assert modes == {0o660}
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.rglob("*") if each.is_dir()} == {0o2770}
    with closing(opened(path)) as ledger:
        assert [level for level, text in ledger.checks() if "Unix group" in text] == ["note"]
        (path / "ledger").chmod(0o666)
        assert [level for level, text in ledger.checks() if "every user" in text] == ["warning"]


def test_foreign_files_are_left_alone_and_said(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(opened(path)) as ledger:
        ledger.append(b"a")
        strangers = [
            path / "notes.txt",
            path / "log" / "0" / "00000000000000000000.log.gz",
            path / "log" / "0" / "x.log",
        ]
        for stranger in strangers:
            stranger.write_text("mine")
        assert ledger.append(b"b") == 1
        ledger.trim(2)
        assert all(stranger.read_text() == "mine" for stranger in strangers)
        assert [text for level, text in ledger.checks() if level == "note" and "notes.txt" in text]


def test_those_that_only_look_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(opened(path)) as ledger:
        ledger.append_many([b"a", b"b"])
        ledger.topic("t").append(b"x")
    before = everything(path)
    with closing(opened(path, readonly=True)) as ledger:
        assert ledger.capabilities.readonly
        assert payloads(ledger) == [b"a", b"b"]
        assert (ledger.start(), ledger.end(), ledger.partitions) == (0, 2, 1)
        assert ledger.identity()
        assert ledger.has_topic("t")
        assert not ledger.has_topic("u")
        assert payloads(ledger.topic("t")) == [b"x"]
        assert ledger.read(2, timeout=0.02) == []
        assert ledger.checks()
        bell = ledger.bell()
        assert bell is None, "nobody has made one"
        writes: list[Callable[[], object]] = [
            lambda: ledger.append(b"c"),
            lambda: ledger.append_many([]),
            lambda: ledger.trim(1),
            lambda: ledger.topic("new"),
        ]
        for write in writes:
            with pytest.raises(CapabilityError, match="opened read-only"):
                write()
    assert everything(path) == before


def test_a_fork_uses_nothing_and_disturbs_nothing(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b"a")

        def child() -> None:
            with pytest.raises(ForkedError):
                ledger.append(b"b")
            ledger.close()
            with closing(opened(tmp_path / "x")) as mine:
                assert mine.append(b"child") == 1

        in_child(child)
        assert ledger.append(b"c") == 2


def test_more_partitions_than_files_may_stay_open(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x", partitions=300, sync="never")) as ledger:
        for turn in range(2):
            for partition in range(300):
                assert ledger.append_many([b"%d" % partition], partition, urgent=False) == [turn]
        assert [entry.payload for entry in ledger.read(0, 7)] == [b"7", b"7"]
        assert len(os.listdir("/proc/self/fd")) < 290


def test_payloads_stand_as_text_in_the_file(tmp_path: Path) -> None:
    with closing(opened(tmp_path / "x")) as ledger:
        ledger.append(b'{"k":"beat"}')
    (segment,) = segments(tmp_path / "x")
    assert segment.read_bytes().splitlines()[-1].endswith(b' {"k":"beat"}')
