"""One registry of protocols: whatever has something for each of them has it for all, and it fits what the registry says."""

from __future__ import annotations

from typing import Any, get_args

import pytest

import pares
from pares.core.errors import CapabilityError, ConfigError
from pares.core.neli.protocols import MODES, is_exclusive
from pares.demo.law import law_of
from pares.runtime.config.protocols import PROTOCOLS, TRAITS, USUAL, ProtocolName, protocol_of
from pares.runtime.kits import KITS, kit_of
from pares.sim.runs import PROTOCOLS as SIMULATED
from pares.supervise.contention import contention
from pares.supervise.grace import rhythm

URL = "sqlite:///work.db"


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
