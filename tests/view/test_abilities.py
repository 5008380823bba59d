"""What `pares doctor` says of what a ledger can do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pares
from pares.ledger import Capabilities
from pares.view.checkup import examine


class Served:
    """A ledger as a service may have it: what it does not say itself, the one behind it says."""

    kind, place = "served", None
    capabilities = Capabilities(reassignment_bound=6.0)

    def __init__(self, behind: pares.Ledger) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)

    def broker_time(self) -> bool:
        return True

    def append_each(self, payloads: Any) -> Any: ...

    def changed(self, positions: Any) -> Any: ...

    def join(self, *_: Any) -> Any: ...


def abilities(log: Any) -> str:
    return next(f.text for f in examine(log, "g", 0, 0).findings if f.check == "ledger")


def test_of_a_ledger_on_one_host(tmp_path: Path) -> None:
    sqlite = f"sqlite:///{tmp_path}/work.db"
    with pares.Member(sqlite, group="g"):
        log = pares.open(sqlite)
        said = abilities(log)
        log.close()
    assert said.startswith("sqlite: all its members are on one host, whose clock its times are by; ")
    assert f"locks that prove deaths are in {log.place}" in said
    assert "one bell rings for all partitions" in said


@pytest.mark.parametrize("more", [True, False])
def test_of_a_service(more: bool) -> None:
    log = pares.open(f"memory://abilities-{more}")
    said = abilities(Served(log) if more else log)
    log.close()
    assert ("its service shares out partitions by itself, after 6 s of silence" in said) is more
    assert ("appends to several partitions cost one call" in said) is more
    assert ("its times are by its service" in said) is more
    assert ("members on any host reach it" in said) is more
    assert ("no other process reaches it" in said) is not more
