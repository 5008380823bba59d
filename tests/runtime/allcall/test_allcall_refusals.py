"""What can't be with ALLCALL: settings, calls that need a log, and what is no bus."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from allcall_tools import Port, Wire, band
from runtime_tools import Crew, fresh_url, until_only

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.ledger import as_bus


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"session": 5.0}, ConfigError, r"protocol=pares.AllCall\(lease="),
        ({"session": 1.0}, ConfigError, "session is 1.0"),
        ({"overlap": 1.0}, ConfigError, "overlap is 1.0"),
        ({"drift": 0.2}, ConfigError, "skew="),
        ({"zone": "z"}, ConfigError, "zones"),
        ({"labels": {"a": "b"}}, ConfigError, "labels"),
        ({"weight": 2}, ConfigError, "weight is 2"),
        ({"eligible": "*"}, ConfigError, "eligible is"),
        ({"settle": 1.0}, ConfigError, "settle is"),
        ({"seats": 2}, CapabilityError, "one leader"),
        ({"lock_folder": "/tmp"}, ConfigError, "lock_folder is '/tmp'"),
        ({"roles": [f"role-{n}" for n in range(201)]}, ConfigError, "201 roles are over ALLCALL's limit of 200"),
        (
            {"roles": [f"{n:03}" + "r" * 190 for n in range(200)]},
            ConfigError,
            "bytes, for 200 roles, and the limit is 65536",
        ),
    ],
)
def test_settings_that_cannot_be(memory: str, settings: dict[str, Any], error: type[Exception], says: str) -> None:
    before = threading.enumerate()
    given = {"roles": ["x"], "protocol": "allcall"} | settings
    with pytest.raises(error, match=says):
        pares.Member(memory, group="g", **given)
    until_only(before)


def test_what_needs_a_log_is_refused_with_what_has_it(crew: Crew) -> None:
    (a,) = band(crew, "a")
    term = a.term("x")
    assert term is not None
    for act in (
        lambda: a.pause(seconds=1),
        lambda: a.resume(),
        lambda: a.mark(term, 1),
        lambda: a.add_role("y"),
        lambda: a.remove_role("x"),
        lambda: a.hand_over("x", to="a"),
    ):
        with pytest.raises(CapabilityError, match="protocol='claims'"):
            act()
    assert a.holds("x")


def test_what_is_no_ledger_and_what_is_read_only(memory: str, sqlite: str) -> None:
    with pytest.raises(ConfigError, match="opened ledger or bus"):
        pares.Member(5, group="g", roles=["x"], protocol="allcall")  # type: ignore[arg-type]
    pares.open(sqlite).close()
    with pytest.raises(CapabilityError, match="read-only"):
        pares.Member(f"{sqlite}?readonly=1", group="g", roles=["x"], protocol="allcall")
    bus = Port(Wire(as_bus(ledger := pares.open(memory))), "a")
    with pytest.raises(ConfigError, match="an opened ledger"):
        pares.Member(bus, group="g", roles=["x"])
    ledger.close()


def test_who_runs_claims_does_not_load_it(tmp_path: Path) -> None:
    code = (
        "import sys, pares\n"
        f"with pares.Member('sqlite:///{tmp_path}/a.db', group='g', roles=['x']) as me: me.wait('x', 30)\n"
        "print([name for name in sys.modules if 'allcall' in name or name == 'pares.runtime.neli.binding'])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[]"


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_nobody_steers_it_from_outside(kind: str, tmp_path: Path) -> None:
    """An administrator would found a claims group of that name, and drain nobody."""
    crew = Crew(fresh_url(kind, tmp_path))
    (a,) = band(crew, "a")
    with pytest.raises(
        CapabilityError, match=r"group 'g' runs 'allcall' on .*\(a member of it called \d s ago.* drain\(\)"
    ):
        pares.Admin(crew.ledger, group="g")
    ledger = pares.open(str(crew.ledger))
    assert ledger.end(0) == 0, "nothing was written"
    ledger.close()
    with pares.Admin(crew.ledger, group="other") as admin:
        admin.add_role("y")
        assert admin.roles() == {"y": 1}
    assert a.holds("x")


def test_an_administrator_may_come_first_and_makes_no_bus(any_crew: Crew) -> None:
    with pares.Admin(any_crew.ledger, group="g") as admin:
        admin.add_role("y")
    ledger: Any = pares.open(str(any_crew.ledger))
    assert not ledger.has_topic("pares.bus")
    ledger.close()
    with pares.Admin(any_crew.ledger, group="g") as admin:
        assert admin.roles() == {"y": 1}
