"""The archive of Spark's classes: made once, used afterwards, and never in anybody's way."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pares.spark.host.archive import Archive
from pares.spark.java import JavaHome

WHOLE = (0xF00BABA8).to_bytes(4, sys.byteorder) + b"classes"
"""The JVM writes the head last."""
ASKED = """
from pares.spark.session import log_tail, started
spark = started(meanwhile=lambda: print("meanwhile"), fill=lambda spark: print("filled", spark.range(3).count()))
assert spark.range(1000).selectExpr("sum(id) AS n").toArrow().to_pylist() == [{"n": 499500}]
print(spark.conf.get("spark.driver.extraJavaOptions"))
"""


@pytest.fixture
def java(tmp_path: Path) -> JavaHome:
    home = tmp_path / "java home"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("a Java")
    return JavaHome(home, 17, "here")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "pares"


def _draft(archive: Archive) -> Path:
    """Where the JVM is told to write it."""
    return Path(archive.option().partition("=")[2].rstrip('"'))


def test_it_is_written_once_and_then_read(java: JavaHome, cache: Path) -> None:
    first = Archive(java, java.home, "4.2.0")
    assert first.writing
    assert first.option().startswith(f' "-XX:ArchiveClassesAtExit={cache}/')
    assert Archive(java, java.home, "4.2.0").option() == "", "another session that begins meanwhile goes without"
    _draft(first).write_bytes(WHOLE)
    first.ended(well=True)
    later = Archive(java, java.home, "4.2.0")
    assert not later.writing
    assert later.option() == f' "-XX:SharedArchiveFile={later.place}"'
    assert later.place is not None
    assert later.place.read_bytes() == WHOLE
    later.ended(well=True)
    assert [path.name for path in cache.glob("*.jsa")] == [later.place.name]


def test_one_that_fits_no_longer_is_made_anew(java: JavaHome, cache: Path) -> None:
    first = Archive(java, java.home, "4.2.0")
    _draft(first).write_bytes(WHOLE)
    first.ended(well=True)
    assert Archive(java, java.home, "4.3.0").writing
    os.utime(java.java, ns=(1, 1))
    assert Archive(java, java.home, "4.2.0").writing


def test_what_was_not_used_for_a_month_goes_when_another_is_begun(java: JavaHome, cache: Path) -> None:
    places: list[Path] = []
    for version in ("4.0.0", "4.1.0"):
        archive = Archive(java, java.home, version)
        _draft(archive).write_bytes(WHOLE)
        archive.ended(well=True)
        places.append(Archive(java, java.home, version).place or cache)
    other = cache / "kafka-4.3.1.lock"
    other.touch()
    for path in cache.iterdir():
        os.utime(path, (1, 1))
    assert Archive(java, java.home, "4.1.0").place == places[1], "it is used"
    assert places[0].exists()
    assert Archive(java, java.home, "4.2.0").writing
    assert [path.exists() for path in places] == [False, True]
    assert other.exists()
    assert len([*cache.glob("*.lock")]) == 2, "the one of today, and the other's"


@pytest.mark.parametrize("left", [None, b"", bytes(4) + b"half"])
@pytest.mark.parametrize("well", [False, True])
def test_what_did_not_come_to_its_end_is_tried_again_after_a_day(
    java: JavaHome, cache: Path, left: bytes | None, *, well: bool
) -> None:
    first = Archive(java, java.home, "4.2.0")
    if left is not None:
        _draft(first).write_bytes(left)
    first.ended(well=well)
    assert Archive(java, java.home, "4.2.0").option() == ""
    _age(cache)
    assert Archive(java, java.home, "4.2.0").writing
    assert list(cache.glob("*.jsa")) == []


def test_a_clock_that_was_wrong_holds_nobody_up(java: JavaHome, cache: Path) -> None:
    Archive(java, java.home, "4.2.0").ended(well=False)
    _age(cache, days=-400)
    assert Archive(java, java.home, "4.2.0").writing


def test_of_two_that_write_it_at_once_one_is_kept(java: JavaHome, cache: Path) -> None:
    first = Archive(java, java.home, "4.2.0")
    _age(cache)
    second = Archive(java, java.home, "4.2.0")
    assert _draft(first) != _draft(second)
    for archive, more in ((first, b""), (second, b" and more")):
        _draft(archive).write_bytes(WHOLE + more)
        archive.ended(well=True)
    assert [path.read_bytes() for path in cache.glob("*.jsa")] == [WHOLE]


def test_in_a_folder_without_locks_it_is_written_all_the_same(
    java: JavaHome, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(file: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    first = Archive(java, java.home, "4.2.0")
    assert first.writing
    first.ended(well=False)
    assert not Archive(java, java.home, "4.2.0").writing


def _age(cache: Path, days: float = 2) -> None:
    before = time.time() - days * 86_400
    for path in cache.iterdir():
        os.utime(path, (before, before))


def test_a_session_that_is_killed_leaves_it_to_the_next_one(java: JavaHome, cache: Path) -> None:
    """And one that lives for longer than a day."""
    code = (
        "import sys; from pathlib import Path; from pares.spark.java import JavaHome; from pares.spark.host.archive import "
        "Archive; home = Path(sys.argv[1]); mine = Archive(JavaHome(home, 17, 'here'), home, '4.2.0'); "
        "print(mine.writing, flush=True); sys.stdin.readline()"
    )
    command = [sys.executable, "-c", code, str(java.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "True\n"
        assert not Archive(java, java.home, "4.2.0").writing
        session.kill()
    after = Archive(java, java.home, "4.2.0")
    assert after.writing
    assert not Archive(java, java.home, "4.2.0").writing
    _age(cache)
    assert Archive(java, java.home, "4.2.0").writing


def test_one_that_was_finished_after_its_session_is_adopted_by_the_next(java: JavaHome, cache: Path) -> None:
    """The JVM writes the head last: before that, the file begins with zeros, and another session goes without it."""
    first = Archive(java, java.home, "4.2.0")
    draft = _draft(first)
    first.ended(well=False)  # it was not waited for any longer
    draft.write_bytes(bytes(4) + b"classes")
    assert Archive(java, java.home, "4.2.0").option() == ""
    draft.write_bytes(WHOLE)
    later = Archive(java, java.home, "4.2.0")
    assert later.place is not None
    assert later.option() == f' "-XX:SharedArchiveFile={later.place}"'
    assert later.place.read_bytes() == WHOLE
    assert [path.name for path in cache.glob("*.jsa")] == [later.place.name]
    assert Archive(java, java.home, "4.2.0").place == later.place


def test_without_a_folder_for_it_there_is_none(java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "no folder").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "no folder"))
    archive = Archive(java, java.home, "4.2.0")
    assert (archive.option(), archive.writing) == ("", False)
    archive.ended(well=True)


def _run(code: str, cache: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_a_session_makes_one_and_the_next_one_starts_from_it(tmp_path: Path) -> None:
    first = _run(ASKED, tmp_path)
    assert "ArchiveClassesAtExit" in first
    assert first.startswith("meanwhile\n")
    assert first.endswith("filled 3\n"), "before it is written"
    made = list((tmp_path / "pares").glob("spark-*.jsa"))
    if not made or "-draft-" in made[0].name:
        pytest.skip("this Java has no classes of its own to build upon, or was not done in time")
    (place,) = made
    assert place.read_bytes()[:4] == (0xF00BABA8).to_bytes(4, sys.byteorder), "what a finished draft is known by"
    assert place.stat().st_size > 10 << 20
    second = _run(ASKED, tmp_path)
    assert f"SharedArchiveFile={place}" in second
    assert "filled" not in second
    place.write_bytes(place.read_bytes()[: 1 << 20])
    assert "ArchiveClassesAtExit" in _run(ASKED, tmp_path), "one that was cut short is made anew, and not mapped"
