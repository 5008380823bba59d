"""docs/internals.md shows a ledger. It is as short as the page says, its types are right, and a group can live on it.

That it keeps the promises of a `Log` is for the conformance suite to say, which has it among its kinds.
"""

import json
import subprocess
import sys
from pathlib import Path

from ledger_stages import Stage
from page_stage import code, registry

from pares import Member

LINES = 150


def test_it_is_one_short_file_and_one_line_of_registry() -> None:
    assert len(code().splitlines()) < LINES
    assert len(registry()) == 1


def test_its_types_are_complete(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (tmp_path / "shoebox_pares.py").write_text(code())
    (tmp_path / "shown.py").write_text(
        "from pares.ledger import Address, Ledger, Options\nfrom shoebox_pares import Shoebox\n\n\n"
        "def opened(address: Address, options: Options) -> Ledger:\n    return Shoebox(address, options)\n"
    )
    settings = {"venvPath": str(root), "venv": ".venv", "extraPaths": [str(root / "src")], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({**settings, "typeCheckingMode": "standard"}))
    command = [Path(sys.executable).with_name("pyright"), "-p", tmp_path]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=170)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_group_lives_on_it(page: Stage) -> None:
    page.open()
    with Member(page.url, group="g", roles=["x"], name="one", session=0.5) as one:
        first = one.wait("x", timeout=60)
        with Member(page.url, group="g", roles=["x"], name="two", session=0.5) as two:
            assert not two.holds("x")
            one.close()
            second = two.wait("x", timeout=60)
            assert first is not None
            assert second is not None
            assert second.token > first.token
