"""The notebook runs from its first cell to its last."""

from __future__ import annotations

import json
from typing import Any

import pytest
from examples.troupe import ROOT

NOTEBOOK = ROOT / "examples" / "audit.ipynb"


def test_every_cell_of_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(NOTEBOOK.read_text())
    cells = ["".join(cell["source"]) for cell in told["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in told["cells"] if cell["cell_type"] == "code"), "no outputs are kept"
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        exec(compile(cell, f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    out = capsys.readouterr().out
    assert "anna leads by token" in out
    assert "kept" in out
    assert "ben led reports" in out
    assert "gained" in out
