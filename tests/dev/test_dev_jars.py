"""The download of Kafka's jars: from a repository that the test controls, with the real jars and the real Ivy."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from maven import MAIN, Maven

from pares.core.errors import CapabilityError
from pares.dev.kafka import jars

PATIENCE = 60.0


@pytest.fixture(scope="module")
def real() -> Path:
    """The jars as they are for everybody here; on a fresh machine they come from Maven Central now."""
    return jars.fetch()


@pytest.fixture
def maven(real: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Maven]:
    """A repository of the test's own, and an empty cache."""
    with Maven(real) as maven:
        monkeypatch.setenv(jars.SETTINGS_VARIABLE, str(maven.settings(tmp_path)))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
        yield maven


def nothing_is_there() -> None:
    """Neither jars that look whole, nor drafts."""
    assert not jars.is_here()
    assert not jars.place().exists()
    assert list(jars.place().parent.glob("*draft*")) == []


def test_what_comes_is_whole_and_nothing_else_is_left(maven: Maven, real: Path) -> None:
    steps: list[tuple[int, int]] = []
    home = jars.fetch(lambda done, total: steps.append((done, total)))
    assert home == jars.place()
    assert home != real
    assert (home / jars.CHECKPOINT).stat().st_size > 100
    assert len(list(home.glob("*.jar"))) == len(list(real.glob("*.jar"))) == jars.EXPECTED
    assert {path.name for path in home.parent.iterdir()} == {home.name, f"{home.name}.lock"}
    assert steps == sorted(steps)
    assert steps[-1] == (2 * jars.EXPECTED, 2 * jars.EXPECTED)
    maven.asked.clear()
    assert jars.fetch() == home
    assert maven.asked == []


def _not_there(maven: Maven) -> None:
    maven.missing.add(f"{MAIN}.pom")
    maven.missing.add(f"{MAIN}.jar")


def _one_not_there(maven: Maven) -> None:
    maven.missing.add("kafka-raft-4.3.1-1.jar")


def _breaks_off(maven: Maven) -> None:
    maven.cut.add("kafka-clients-4.3.1-1.jar")


def _wrong_checksum(maven: Maven) -> None:
    maven.spoilt.add("kafka-clients-4.3.1-1.jar")


def _damaged_and_nobody_vouches(maven: Maven) -> None:
    maven.vouch = False
    maven.spoilt.add("kafka-clients-4.3.1-1.jar")


def _another_program(maven: Maven) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as jar:
        jar.writestr("nothing/of/use.txt", "")
    maven.replaced[f"{MAIN}.jar"] = archive.getvalue()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (_not_there, r"kafka_2\.13;4\.3\.1: not found"),
        (_one_not_there, r"kafka-raft"),
        (_breaks_off, r"kafka-clients"),
        (_wrong_checksum, r"kafka-clients"),
        (_damaged_and_nobody_vouches, r"kafka-clients-4\.3\.1-1\.jar is damaged"),
        (_another_program, r"its jars don't run.*StorageTool"),
    ],
)
def test_a_broken_download_leaves_nothing_half_and_the_next_one_heals_it(
    maven: Maven, fault: Callable[[Maven], None], words: str
) -> None:
    fault(maven)
    with pytest.raises(CapabilityError, match=words) as caught:
        jars.fetch()
    for part in ("download of Kafka 4.3.1", "Try again", jars.SETTINGS_VARIABLE, str(jars.place())):
        assert part in str(caught.value)
    nothing_is_there()
    maven.missing.clear()
    maven.cut.clear()
    maven.spoilt.clear()
    maven.replaced.clear()
    assert (jars.fetch() / jars.CHECKPOINT).exists()


def test_a_request_that_fails_once_is_no_failure(maven: Maven) -> None:
    stumbling = "kafka-clients-4.3.1-1.jar"
    maven.stumbles.add(stumbling)
    assert (jars.fetch() / jars.CHECKPOINT).exists()
    asked = [path.rpartition("/")[2] for path in maven.asked]
    assert asked.count(stumbling) == 2
    assert asked.count("kafka-raft-4.3.1-1.jar") == 1, "what had come is not asked for again"


def test_nobody_answers(maven: Maven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = maven.settings(tmp_path).read_text().replace(maven.url, "http://127.0.0.1:1")
    (tmp_path / "dead.xml").write_text(text)
    monkeypatch.setenv(jars.SETTINGS_VARIABLE, str(tmp_path / "dead.xml"))
    with pytest.raises(CapabilityError, match=r"failed.*Try again"):
        jars.fetch()
    nothing_is_there()


def test_settings_that_are_not_there(maven: Maven, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.SETTINGS_VARIABLE, str(tmp_path / "none.xml"))
    with pytest.raises(CapabilityError, match=r"PARES_IVY_SETTINGS names .*none\.xml, which is no file"):
        jars.fetch()
    nothing_is_there()


def test_many_ask_and_one_fetches(maven: Maven) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(jars.fetch())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [jars.place()] * 4
    assert maven.asked.count(f"{MAIN}.jar") == 1


def test_one_that_is_killed_half_way_leaves_nothing_for_long(maven: Maven) -> None:
    maven.stuck = threading.Event()
    place = jars.place()
    with subprocess.Popen([sys.executable, "-c", "from pares.dev.kafka import jars; jars.fetch()"]) as victim:
        try:
            assert maven.reached.wait(PATIENCE)
        finally:
            victim.kill()
            maven.stuck.set()
    assert len(list(place.parent.glob("*-draft-*"))) == 1
    assert not jars.is_here()
    assert jars.fetch() == place
    assert {path.name for path in place.parent.iterdir()} == {place.name, f"{place.name}.lock"}


def test_without_pyspark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    with pytest.raises(CapabilityError, match=r"no PySpark here: pip install 'pares\[spark\]'"):
        jars.fetch()
    assert list(tmp_path.iterdir()) == []


def test_proxies_of_the_environment_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    assert jars.proxies() == ["-Dhttps.proxyHost=127.0.0.1", "-Dhttps.proxyPort=3128"]
    monkeypatch.delenv("https_proxy")
    assert jars.proxies() == []
