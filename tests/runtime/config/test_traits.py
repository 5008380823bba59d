"""One registry of protocols: whatever has something for each of them has it for all, and it fits what the registry says."""

from __future__ import annotations

import contextlib
import time
from typing import Any, get_args

import pytest
from runtime_tools import until

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.core.neli.protocols import MODES, is_exclusive
from pares.demo.law import law_of
from pares.runtime.config.protocols import PROTOCOLS, TRAITS, USUAL, ProtocolName, protocol_of
from pares.runtime.kits import KITS, Part, kit_of, part_of
from pares.sim.runs import PROTOCOLS as SIMULATED
from pares.supervise.contention import contention
from pares.supervise.grace import rhythm
from pares.view.checkup import examine, verdict

URL = "sqlite:///work.db"
QUICK: dict[str, Any] = {"session": 0.5}
CALLING = pares.AllCall(heartbeat=0.05, lease=0.5, skew=0.0, silence=0.0)


def member(ledger: str, name: ProtocolName) -> pares.Member:
    """A member of group "g" for role "x" that runs this protocol, and soon leads."""
    if not TRAITS[name].on_log:
        return pares.Member(ledger, group="g", roles="x", protocol=CALLING)
    named: dict[str, Any] = {} if name == USUAL.name else {"protocol": name}
    return pares.Member(ledger, group="g", roles="x", **QUICK, **named)


def test_the_registry_has_each_name_once() -> None:
    assert tuple(TRAITS) == PROTOCOLS == get_args(ProtocolName)
    assert [name for name, traits in TRAITS.items() if traits.name != name] == []
    assert {traits.mode for traits in TRAITS.values() if traits.mode} == set(MODES.values())


@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_has_a_kit_that_makes_its_members(name: ProtocolName, memory: str) -> None:
    assert set(KITS) == set(PROTOCOLS)
    settings: dict[str, Any] = {} if name == USUAL.name else {"protocol": name}
    with pares.Member(memory, group="g", roles="x", **settings) as me:
        assert me.roles() == {} or set(me.roles()) == {"x"}
        view = type(me._view).__module__  # pyright: ignore[reportPrivateUsage]
        if settings:
            assert vars(kit_of(name))["__name__"] == f"{view.removesuffix('.view')}.kit"


@pytest.mark.parametrize("part", get_args(Part))
@pytest.mark.parametrize("name", PROTOCOLS)
def test_each_part_is_where_the_registry_says(name: ProtocolName, part: Part) -> None:
    assert part_of(name, part) is not None


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_group_is_observed_by_what_its_protocol_names(name: ProtocolName, memory: str) -> None:
    listened: dict[str, Any] = {} if TRAITS[name].on_log else {"protocol": name}
    with member(memory, name), pares.Observer(memory, group="g", **listened) as observer:
        until(lambda: observer.leader("x"), "its leader is seen")
        watch: Any = observer._watch  # pyright: ignore[reportPrivateUsage]
        assert type(watch._follows if TRAITS[name].on_log else watch) is part_of(name, "observer")


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_group_is_steered_by_what_its_protocol_names_or_can_not_be(name: ProtocolName, memory: str) -> None:
    with member(memory, name) as me:
        until(lambda: me.leader("x"), "it leads")
        if not TRAITS[name].on_log:
            with pytest.raises(CapabilityError, match=f"runs '{name}'"):
                pares.Admin(memory, group="g")
            return
        with pares.Admin(memory, group="g") as admin:
            steers = type(admin._steers).__module__  # pyright: ignore[reportPrivateUsage]
            assert steers == part_of(name, "admin").__module__
            assert admin.roles() == {"x": 1}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_group_is_examined_by_what_its_protocol_names(name: ProtocolName, memory: str) -> None:
    traits = TRAITS[name]
    with member(memory, name) as me:
        until(lambda: me.leader("x"), "it leads")
        if traits.on_log:
            log = pares.open(memory)
            checkup = examine(log, "g", 0, time.time_ns() // 1_000_000)
            log.close()
            assert (checkup.induction is not None) is traits.partitions
            assert checkup.induction is None or checkup.induction.facts()["protocol"] == name
            findings = checkup.findings
        else:
            with contextlib.closing(part_of(name, "observer")(memory, "g")) as observer:
                until(lambda: observer.leaders("x"), "it is heard")
                findings, _ = part_of(name, "doctor")(observer, memory, 0.1)
    assert verdict(findings)
    assert any(str(level) == "good" for level in (finding.level for finding in findings))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_what_runs_a_command_is_there_for_each(name: ProtocolName) -> None:
    found = rhythm(name, 5.0)
    assert 0 < found.renewal < found.lease
    assert protocol_of(found.protocol)[0] == name, "the member is made with that protocol"
    asked = contention(name, None, 1, URL)
    assert ("session" in asked.settings) == TRAITS[name].on_log


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_demo_plays_each_by_what_the_registry_says(name: ProtocolName) -> None:
    law = law_of(name, overlap=False)
    assert protocol_of(law.settings.get("protocol", USUAL.name))[0] == name
    assert law.two is not TRAITS[name].exclusive
    assert (law.shares_out, law.calls, law.placed) == (
        TRAITS[name].partitions,
        not TRAITS[name].on_log,
        TRAITS[name].placed,
    )
    assert bool(law.why_no_audit) == law.calls
    if TRAITS[name].overlap:
        assert law_of(name, overlap=True).two
    else:
        with pytest.raises(ConfigError, match=f"--overlap does not go with --protocol {name}"):
            law_of(name, overlap=True)


def test_each_can_be_simulated() -> None:
    assert set(SIMULATED) == {*PROTOCOLS, "consume"}, "and consumers, whose groups run claims"


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_group_is_read_or_listened_to(name: ProtocolName, memory: str) -> None:
    """An observer of a protocol without a log listens; the others are told apart by what is in the log."""
    if not TRAITS[name].on_log:
        with pares.Observer(memory, group="g", protocol=name) as listener:
            assert listener.members() == []
            with pytest.raises(CapabilityError, match="has no log"):
                _ = listener.world
    elif name == USUAL.name:
        with pares.Observer(memory, group="g", protocol=name) as reader:
            assert reader.world.members == {}
            assert (reader.members(), reader.disagreement()) == ([], {})
    else:
        with pytest.raises(ConfigError, match="an observer reads 'claims', or listens to 'allcall'"):
            pares.Observer(memory, group="g", protocol=name)


def test_a_protocol_of_a_later_release_is_taken_for_exclusive() -> None:
    assert [name for name in (*MODES, "neli-next", "") if not is_exclusive(name)] == ["nele"]
