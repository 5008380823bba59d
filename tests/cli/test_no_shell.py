"""No command line goes through a shell: what `pares run` is given it executes word by word. (Ruff's S602 and its like keep
`shell=True` out of the code.)"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

from cli_log import pares

WORDS = [
    "$(touch taken)",
    "`touch taken`",
    "; touch taken",
    "| tee taken",
    "> taken",
    "*",
    "~",
    "$HOME",
    "a b",
    "",
    "'\"\\",
    "&&",
]


def test_words_stay_words(tmp_path: Path) -> None:
    program = f"import json, os, sys; os.chdir({str(tmp_path)!r}); print(json.dumps(sys.argv[1:]))"
    url = f"sqlite:///{tmp_path}/work.db"
    ran = pares("run", "--ledger", url, "--role", "r; touch taken", "--", sys.executable, "-c", program, *WORDS)
    assert ran.code == 0, ran.err
    assert json.loads(ran.out.splitlines()[-1]) == WORDS
    assert not (tmp_path / "taken").exists()
    assert not Path("taken").exists()


def test_a_program_that_is_a_line_of_shell_is_no_program(tmp_path: Path) -> None:
    ran = pares("run", "--ledger", f"sqlite:///{tmp_path}/work.db", "--role", "r", "--", f"touch {tmp_path}/taken")
    assert ran.code != 0
    assert not (tmp_path / "taken").exists()


def test_the_linter_keeps_it_so() -> None:
    settings = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert {"S602", "S604", "S605", "S609"} <= {*settings["tool"]["ruff"]["lint"]["select"]}
