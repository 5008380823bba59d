"""A SQLite ledger that may only be read: by its permissions, by its folder's, and because `readonly` says so."""

import os
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from ledger_stages import SqliteStage, as_ordinary_user, in_child
from sqlite_tools import open_file, refused

from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import Ledger


def looks_on(ledger: Ledger) -> None:
    """What a read-only handle may do and may not."""
    assert [entry.payload for entry in ledger.read(0)] == [b"a", b"b"]
    assert (ledger.start(), ledger.end(), ledger.partitions) == (0, 2, 1)
    assert ledger.identity()
    writes: list[Callable[[], object]] = [
        lambda: ledger.append(b"c"),
        lambda: ledger.append_many([b"c"]),
        lambda: ledger.trim(1),
        lambda: ledger.topic("new"),
    ]
    for write in writes:
        with pytest.raises(CapabilityError, match="opened read-only: open it without readonly to write"):
            write()


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_file(path)) as ledger:
        ledger.append_many([b"a", b"b"])
    path.chmod(0o400)

    def attempt() -> None:
        refused(
            path,
            ConfigError,
            "can't be written by this process: give this user the permission, or open it with readonly=1",
        )
        with closing(open_file(path, readonly=True)) as ledger:
            looks_on(ledger)

    as_ordinary_user(attempt)


def test_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_file(path).close()
    path.chmod(0)
    as_ordinary_user(lambda: refused(path, ConfigError, "can't be read", readonly=True))


def test_read_only_beside_a_writer(sqlite: SqliteStage) -> None:
    writer = sqlite.open()
    writer.append_many([b"a", b"b"])
    writer.topic("there", 2)
    reader = sqlite.open(readonly=True)
    looks_on(reader)
    assert reader.topic("there").partitions == 2
    timer = threading.Timer(0.05, writer.append, [b"c"])
    timer.start()
    assert [entry.payload for entry in reader.read(2, timeout=60.0)] == [b"c"]
    timer.join()
    with pytest.raises(CapabilityError, match="opened read-only"):
        sqlite.open(readonly=True, partitions=3)
    assert writer.partitions == 1


def test_read_only_in_a_folder_that_can_not_be_written(tmp_path: Path) -> None:
    """A ledger that nobody has open, and that then somebody else writes to."""
    path = tmp_path / "ledger.db"
    with closing(open_file(path)) as ledger:
        ledger.append_many([b"a", b"b"])
    ready, written = os.pipe(), os.pipe()

    def attempt() -> None:
        with closing(open_file(path, readonly=True)) as ledger:
            looks_on(ledger)
            os.write(ready[1], b"r")
            assert os.read(written[0], 1) == b"w"
            assert [entry.payload for entry in ledger.read(2)] == [b"c"]
            assert ledger.end() == 3

    def write() -> None:
        os.read(ready[0], 1)
        tmp_path.chmod(0o700)
        with closing(open_file(path)) as ledger:
            ledger.append(b"c")
        tmp_path.chmod(0o500)
        os.write(written[1], b"w")

    tmp_path.chmod(0o500)
    writer = threading.Thread(target=in_child, args=(write,))
    try:
        writer.start()
        as_ordinary_user(attempt)
        writer.join()
    finally:
        tmp_path.chmod(0o700)
        for end in (*ready, *written):
            os.close(end)
