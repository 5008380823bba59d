"""A history whose disk is full: it says so, what was committed stays, and with room it goes on as if nothing had been."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from full_disk import Full, files_of_at_most
from kept import bytes_of, rows, saved
from scribe import story

from pares.core.errors import CapabilityError
from pares.ledger import open as open_ledger
from pares.spark.histories import columns, disk, history

pytestmark = pytest.mark.timeless
SAYS = "there is no room left at .*: make some, and update again: a batch is in the history whole or not at all"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(story(3, roles=4, steps=60), tmp_path_factory.mktemp("log") / "l.db")


@contextmanager
def _full_at(call: int) -> Iterator[Full]:
    with pytest.MonkeyPatch.context() as patch:
        full = Full(call)
        patch.setattr(disk, "os", full)
        yield full


def test_with_no_room_at_any_step_it_says_what_to_do_and_loses_nothing(url: str, tmp_path: Path) -> None:
    straight, begun = history(None, tmp_path / "straight"), history(None, tmp_path / "begun")
    begun.update(url, max_records=40)
    shutil.copytree(begun.path, straight.path)
    straight.update(url)
    expected = bytes_of(straight.path)
    whole = [{name: rows(of, name) for name in columns.TABLES} for of in (begun, straight)]
    call, said = 0, list[str]()
    while True:
        kept = history(None, tmp_path / f"full-{call}")
        shutil.copytree(begun.path, kept.path)
        with _full_at(call) as full:
            try:
                kept.update(url)
            except CapabilityError as error:
                said.append(str(error))
        if full.left >= 0:
            break  # so many calls are not made
        assert {name: rows(kept, name) for name in columns.TABLES} in whole
        kept.update(url)
        kept.sweep(older_than_s=-1)
        assert bytes_of(kept.path) == expected
        call += 1
    assert call == len(said) > 20
    assert all("no room left" in text for text in said)


@pytest.mark.parametrize("size", [0, 100, 3000])
def test_a_file_that_can_not_grow_ends_the_batch_and_no_other(tmp_path: Path, size: int) -> None:
    # Of a ledger that writes nothing when it is read.
    url = f"file:{tmp_path}/log"
    with closing(open_ledger(f"{url}?create=1")) as ledger:
        ledger.append_many([payload for _, _, payload in story(3, roles=4, steps=60).entries])
    kept = history(None, tmp_path / "h")
    kept.update(url, max_records=40)
    before = {name: rows(kept, name) for name in columns.TABLES}
    with files_of_at_most(size), pytest.raises(CapabilityError, match=SAYS):
        kept.update(url)
    assert {name: rows(kept, name) for name in columns.TABLES} == before
    assert kept.check() == []
    kept.update(url)
    straight = history(None, tmp_path / "straight")
    straight.update(url, max_records=40)
    straight.update(url)
    kept.sweep(older_than_s=-1)
    assert bytes_of(kept.path) == bytes_of(straight.path)


def test_a_partition_that_was_added_is_read_from_its_beginning(tmp_path: Path) -> None:
    log, place = story(3, roles=3, steps=40), f"sqlite:///{tmp_path}/p.db"
    kept = history(None, tmp_path / "h")
    with closing(open_ledger(f"{place}?partitions=2")) as ledger:
        ledger.append_many([payload for _, _, payload in log.entries[:30]], 0)
        ledger.append_many([payload for _, _, payload in log.entries[:5]], 1)
    first = kept.update(place)
    assert first is not None
    assert first.ranges == {"0": (0, 30), "1": (0, 5)}
    with closing(open_ledger(f"{place}?partitions=4")) as ledger:
        assert ledger.partitions == 4
        ledger.append_many([payload for _, _, payload in log.entries[:7]], 3)
        ledger.append_many([payload for _, _, payload in log.entries[5:6]], 1)
    second = kept.update(place)
    assert second is not None
    assert second.ranges == {"1": (5, 6), "3": (0, 7)}
    assert {number: done.upto for number, done in second.partitions.items()} == {"0": 30, "1": 6, "2": 0, "3": 7}
    assert kept.update(place) is None
    found = rows(kept, "records")
    assert sorted((row["partition"], row["offset"]) for row in found) == [
        *((0, at) for at in range(30)),
        *((1, at) for at in range(6)),
        *((3, at) for at in range(7)),
    ]
    assert rows(kept, "anomalies") == []
