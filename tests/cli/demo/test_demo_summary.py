"""The demo's last screen: what it says is what there is, brackets included."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from demo_tools import PLAYED
from pares.demo.summary import Summary, show


def shown(summary: Summary, *, overlap: bool = False) -> str:
    out = io.StringIO()
    show(Console(file=out, width=120), summary, overlap=overlap)
    return out.getvalue()


def test_what_to_install_keeps_its_extra() -> None:
    assert "pip install 'pares[spark]'" in shown(replace(PLAYED, why_no_audit="no pandas: pip install 'pares[spark]'"))


def test_a_ledger_with_brackets_in_its_name_can_be_copied() -> None:
    assert "--ledger 'sqlite:///a[b].db' --group demo" in shown(replace(PLAYED, kept=True, ledger="sqlite:///a[b].db"))


def test_whoever_sees_gaps_is_told_of_the_other_mode() -> None:
    assert "pares demo --overlap" in shown(PLAYED)
    assert "pares demo --overlap" not in shown(replace(PLAYED, missing=0))
    assert "pares demo --overlap" not in shown(PLAYED, overlap=True)
