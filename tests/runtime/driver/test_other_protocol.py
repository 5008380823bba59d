"""Members of claims and of the NELI family under one group's name, on real ledgers: the second is refused."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from runtime_tools import PATIENCE, Crew, fresh_url, until

import pares
from pares.core.errors import ParesError

INDUCED = ("fast-neli", "neli")
PAIRS = [(first, second) for one in INDUCED for first, second in ((one, "claims"), ("claims", one))]


@pytest.fixture(params=["memory", "sqlite", pytest.param("kafka", marks=pytest.mark.brokers)])
def crew(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Crew]:
    group = f"g-{uuid.uuid4().hex[:8]}"
    if request.param != "kafka":
        yield Crew(fresh_url(request.param, tmp_path), group)
        return
    kafka = request.getfixturevalue("kafka")
    made = pares.open(f"kafka://{kafka.bootstrap}/t-{uuid.uuid4().hex}?partitions=1", options=kafka.client())
    yield Crew(made, group)
    made.close()


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_comes_second_is_refused_until_the_first_has_closed(crew: Crew, first: str, second: str) -> None:
    one = crew.member("one", protocol=first)
    term = one.wait("A", PATIENCE)
    assert term
    two = crew.member("two", protocol=second)
    with pytest.raises(
        ParesError, match=f"runs '{first}' .*, and this member '{second}'.*when the members of the other have closed"
    ):
        two.wait("A", PATIENCE)
    assert two.state == "failed"
    assert one.term("A") is term
    assert not one.health().problems
    one.close()
    assert crew.member("three", protocol=second).wait("A", PATIENCE)


@pytest.mark.parametrize("induced", INDUCED)
def test_of_two_that_start_at_once_one_leads(crew: Crew, induced: str) -> None:
    made: list[pares.Member] = []
    gate = threading.Barrier(2)

    def start(protocol: str) -> None:
        gate.wait()
        made.append(crew.member(protocol, protocol=protocol))

    threads = [threading.Thread(target=start, args=(protocol,)) for protocol in ("claims", induced)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    both = 0

    def decided() -> bool:
        nonlocal both
        both += all(member.holds("A") for member in made)
        return any(m.holds("A") for m in made) and any(m.state == "failed" for m in made)

    until(decided, "one leads, the other is refused", PATIENCE)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        decided()
    assert both == 0
    assert [member.holds("A") for member in made].count(True) == 1
