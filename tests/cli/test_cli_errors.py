"""What a stranger types wrong: plain words, one line, the right exit code, and nothing brought into being."""

from __future__ import annotations

import errno
import json
import re
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli_log import BASE, HandLog, pares, pares_here

import pares.ledger as pares_ledger
from pares.cli.common.output import plain_errors
from pares.core.wire import records as r

NEWER = r.READS + 1
"""A format version that this one can't read."""


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("work.db", "sqlite:///work.db"),
        ("sqlite://work.db", "three slashes"),
        ("zookeeper://localhost", "no scheme known"),
        ("memory://x", "inside one process"),
        ("", "no ledger URL"),
        ("sqlite:///x.db?colour=red", "unknown option"),
        (":", "no ledger URL"),
    ],
)
@pytest.mark.parametrize("command", ["watch", "history", "doctor", "roles", "pause", "audit", "run", "demo"])
def test_a_wrong_url_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, url: str, word: str
) -> None:
    monkeypatch.chdir(tmp_path)
    HandLog(tmp_path / "x.db")
    HandLog(tmp_path / "work.db")
    more = {"run": ["--role", "r", "--", "true"], "demo": ["--no-audit"]}.get(command, [])
    ran = pares_here(command, "--ledger", url, "--json", *more)
    assert ran.code == 2
    assert word in ran.one_line
    assert ran.out == ""
    if url == "":
        alone = pares(command, "--ledger", url, "--json", *more)
        # What `run --json` says has the time in it.
        told, same = (re.sub(r'"at_ms": \d+', "", said.err) for said in (ran, alone))
        assert (alone.code, alone.out, same) == (ran.code, ran.out, told), "so it is in a process of its own"


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    for command in (["watch"], ["history"], ["doctor"], ["roles"], ["pause"], ["drain", "ann"], ["audit"]):
        ran = pares(*command, "--ledger", f"sqlite:///{tmp_path}/none.db")
        assert ran.code == 2, ran
        assert "there is no ledger at" in ran.one_line
    assert list(tmp_path.iterdir()) == []


def test_the_default_ledger_is_in_the_state_folder(tmp_path: Path) -> None:
    ran = pares("watch", env={"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert ran.code == 2
    assert str(tmp_path) in ran.one_line
    assert list(tmp_path.iterdir()) == []


def test_the_default_ledger_of_an_earlier_release_is_used_on(tmp_path: Path) -> None:
    """A second ledger beside it would be a second world."""
    env = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    state = tmp_path / "pares"
    state.mkdir()
    old = f"sqlite:///{state}/pares.db"
    with closing(pares_ledger.open(old)):
        pass
    ran = pares("run", "--role", "r", "--", "true", env=env)
    assert ran.code == 0, ran.err
    assert (state / "ledger").exists(), "nothing was ever written to the old one"
    with closing(pares_ledger.open(old)) as ledger:
        ledger.append(b"of a member")
    ran = pares("watch", "--once", env=env)
    assert ran.code == 2
    assert "there are two default ledgers" in ran.one_line
    shutil.rmtree(state / "ledger")
    ran = pares("run", "--role", "r", "--", "true", env=env)
    assert ran.code == 0, ran.err
    assert f"still the SQLite file {state}/pares.db" in ran.err
    assert not (state / "ledger").exists()
    with closing(pares_ledger.open(old)) as ledger:
        assert ledger.end() > 1
    ran = pares("run", "--json", "--role", "r", "--", "true", env=env)
    assert all(json.loads(line) for line in ran.err.splitlines()), "also the remark is JSON, where all is"
    assert "still the SQLite file" in ran.err


def test_a_variable_that_is_set_but_empty_does_not_mean_the_default(tmp_path: Path) -> None:
    """What ran to set it has failed: on the default ledger each host would lead alone."""
    env = {"XDG_STATE_HOME": str(tmp_path), "HOME": str(tmp_path), "PARES_LEDGER": ""}
    for command in (["run", "--role", "r", "--", "true"], ["watch"]):
        ran = pares(*command, env=env)
        assert ran.code == 2, ran
        assert "PARES_LEDGER is set, but empty" in ran.one_line
    assert list(tmp_path.iterdir()) == []


def test_files_that_are_no_ledgers(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("these are notes, and they are long enough to be read as a header of something\n" * 9)
    empty = tmp_path / "empty.db"
    empty.touch()
    folder = tmp_path / "folder"
    folder.mkdir()
    for path, word in ((text, "no SQLite database"), (empty, "empty file"), (folder, "is a folder")):
        assert pares("audit", "--ledger", f"sqlite:///{path}").one_line  # nothing of Spark before it
        ran = pares("watch", "--ledger", f"sqlite:///{path}")
        assert ran.code == 2
        assert word in ran.one_line
    assert text.read_text().startswith("these are notes")


def test_a_ledger_of_a_newer_layout(tmp_path: Path) -> None:
    import sqlite3

    log = HandLog(tmp_path / "x.db")
    log.ledger.close()
    connection = sqlite3.connect(log.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    ran = pares("watch", "--ledger", log.url)
    assert ran.code == 1
    assert "upgrade" in ran.one_line


@pytest.mark.parametrize("command", [["watch"], ["history"], ["roles"], ["pause"], ["run", "--role", "r", "true"]])
def test_a_group_that_writes_a_newer_format(tmp_path: Path, command: list[str]) -> None:
    log = HandLog(tmp_path / "x.db")
    written = {"g": "default", "m": "new~1", "b": BASE, "s": 250}
    log.raw(
        json.dumps({"v": 1, "k": "join", "n": 1, "name": "new", "session": 1000, "reads": NEWER, **written}).encode()
    )
    log.put(r.Leave, "chief")  # it read less: now the newer version counts
    log.raw(json.dumps({"v": NEWER, "k": "beat", "n": 2, **written}).encode())
    ran = pares(*command[:1], "--ledger", log.url, *command[1:])
    assert ran.code == 1
    assert f"writes format {NEWER} and this version of pares reads up to {r.READS}: upgrade" in ran.err.splitlines()[-1]
    assert len(ran.err.splitlines()) == 1 or command[0] == "run"
    assert ran.out == ""


def test_what_can_not_be_written_is_said_before_the_work(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "x.db")
    log.role("feed")
    file = tmp_path / "file"
    file.touch()
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    for place, word in ((file, "is no folder"), (file / "below", "is no folder"), (closed / "new", "can't be written")):
        ran = pares("audit", "--ledger", log.url, "--out", str(place), humble=True)
        assert ran.code == 2
        assert word in ran.one_line
        assert "--out" in ran.one_line
        ran = pares("demo", "--report", str(place / "report.html"), humble=True)
        assert ran.code == 2
        assert word in ran.one_line
        assert ran.out == ""
    ran = pares("demo", "--report", str(tmp_path))
    assert ran.code == 2
    assert "name a file" in ran.one_line


def test_a_full_disk_is_the_users_matter_and_a_defect_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, plain_errors():
        raise OSError(errno.ENOSPC, "No space left on device", "/some/file")
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "pares: /some/file can't be used: No space left on device; make room on its disk, or name another\n"
    )
    with pytest.raises(OSError, match="Bad file descriptor"), plain_errors():
        raise OSError(errno.EBADF, "Bad file descriptor")


def test_doctor_says_which_groups_there_are(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "x.db")
    assert "Groups in it: default (2 records)" in pares("doctor", "--ledger", log.url, "--group", "other").out


def test_a_ledger_that_may_not_be_written_can_be_watched_but_not_steered(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "x.db")
    log.role("feed")
    log.ledger.close()
    log.path.chmod(0o400)
    assert pares("watch", "--ledger", log.url, "--json", humble=True).code == 0
    ran = pares("pause", "--ledger", log.url, humble=True)
    assert ran.code == 2
    assert "can't be written" in ran.one_line


def test_folders_and_files_that_permissions_close(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "x.db")
    log.role("feed")
    log.ledger.close()
    log.path.chmod(0)
    unreadable = pares("watch", "--ledger", log.url, humble=True)
    assert unreadable.code in (1, 2)
    assert "x.db" in unreadable.one_line
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    ran = pares("demo", "--no-audit", "--ledger", f"sqlite:///{closed}/demo.db", humble=True)
    assert ran.code == 2
    assert "can't be written" in ran.one_line
    closed.chmod(0)
    hidden = pares("doctor", "--ledger", f"sqlite:///{closed}/demo.db", humble=True)
    assert hidden.code in (1, 2)
    assert str(closed) in hidden.one_line
    closed.chmod(0o700)


@pytest.mark.parametrize("group", ["", "a\nb", "x" * 201, "\x07"])
def test_a_group_that_no_group_can_be_called(tmp_path: Path, group: str) -> None:
    log = HandLog(tmp_path / "x.db")
    for command in ("watch", "history", "doctor"):
        ran = pares_here(command, "--ledger", log.url, "--group", group)
        assert ran.code == 2
        assert "--group" in ran.one_line


def test_unknown_commands_and_options_end_with_2() -> None:
    for arguments in (
        ["wach"],
        ["watch", "--colour"],
        ["history", "--limit", "0"],
        ["handover"],
        ["pause", "--seconds", "-1"],
    ):
        ran = pares_here(*arguments)
        assert ran.code == 2, arguments
        assert "Traceback" not in ran.err
        assert ran.out == ""


def test_demo_refuses_what_can_not_work() -> None:
    for option, value in (("--seconds", "1"), ("--members", "2"), ("--roles", "0"), ("--members", "17")):
        ran = pares_here("demo", option, value)
        assert ran.code == 2
        assert option in ran.one_line


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """An interpreter that can't find pyspark and its friends, as after a plain `pip install pares`."""
    log = HandLog(tmp_path / "x.db")
    log.ledger.close()
    blocker = tmp_path / "block"
    blocker.mkdir()
    (blocker / "sitecustomize.py").write_text(
        "import sys\n"
        "class Block:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('pyspark', 'py4j', 'pandas', 'pyarrow', 'numpy'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Block())\n"
    )
    env = {"PYTHONPATH": str(blocker)}
    ran = pares("audit", "--ledger", log.url, "--json", env=env)
    assert ran.code == 1
    assert "pip install 'pares[spark]'" in ran.one_line
    assert "pip install 'pares[spark]'" in pares("audit", "--ledger", log.url, env=env).one_line  # and nothing starts
    assert pares("--help", env=env).code == 0
    assert pares("watch", "--ledger", log.url, "--json", env=env).code == 0


def test_help_is_there_for_every_command() -> None:
    listed = pares("--help")
    assert listed.code == 0
    for command in (
        "demo",
        "run",
        "sim",
        "watch",
        "roles",
        "history",
        "handover",
        "drain",
        "pause",
        "resume",
        "doctor",
        "audit",
    ):
        assert command in listed.out
        ran = pares(command, "--help")
        assert ran.code == 0
        assert "Usage" in ran.out


@pytest.mark.parametrize(
    ("command", "usage"),
    [
        (["run"], "pares run --role ROLE [OPTIONS] -- CMD [ARGS]..."),
        (["handover"], "pares handover [OPTIONS] ROLE"),
        (["roles", "add"], "pares roles add [OPTIONS] ROLE"),
        (["watch"], "pares watch [OPTIONS]"),
    ],
)
def test_the_usage_line_is_what_one_types(command: list[str], usage: str) -> None:
    assert usage in [line.strip().removeprefix("Usage: ") for line in pares(*command, "--help").out.splitlines()]
    assert f"Usage: {usage}" in pares(*command, "--nonsense").err.splitlines()


def test_a_run_without_a_command_names_what_is_missing() -> None:
    assert "Missing argument 'CMD'" in pares("run", "--role", "r").err


def test_help_imports_nothing_heavy() -> None:
    """The promise is quickness; what is measured is its cause, as a clock would fail on a busy machine."""
    code = (
        "import sys\n"
        "from pares.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'pyspark', 'pandas', 'numpy', 'pyarrow', 'pares.spark', 'pares.sim', 'pares.demo', 'pares.view'}\n"
        "sys.stderr.write(','.join(sorted(heavy & set(sys.modules))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""


def test_a_reader_of_the_output_may_go_away(tmp_path: Path) -> None:
    log = HandLog(tmp_path / "x.db")
    for n in range(300):
        log.role(f"role{n:03d}")
    command = f"{sys.executable} -m pares watch --once --ledger '{log.url}' | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert "group default" in done.stdout
