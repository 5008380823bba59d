"""Members on a real NATS: the kernel runs there as it is, through a server that is restarted and one that stands still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import pares
from pares.dev import Nats

HANG = 60.0


@pytest.fixture
def own() -> Iterator[Nats]:
    with Nats() as nats:
        yield nats


def until(done: Callable[[], object]) -> None:
    end = time.monotonic() + HANG
    while not done():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.02)


@pytest.mark.processes
def test_one_leads_through_handover_restart_and_standstill(own: Nats) -> None:
    options = {"group": "g", "roles": ["x"], "session": 1.0}
    with pares.Member(own.url, name="a", **options) as a:
        first = a.wait("x", timeout=HANG)
        assert first is not None
        with pares.Member(own.url, name="b", **options) as b:
            until(lambda: len(a.members()) == 2)
            a.hand_over("x", to="b")
            second = b.wait("x", timeout=HANG)
            assert second is not None
            assert second.token > first.token
            assert not a.holds("x")

            own.restart(1)
            until(lambda: a.holds("x") or b.holds("x"))
            time.sleep(1.0)
            assert [a.holds("x"), b.holds("x")].count(True) <= 1

            own.freeze(1)
            until(lambda: not a.holds("x") and not b.holds("x"))  # nobody can know any more
            own.thaw(1)
            until(lambda: a.holds("x") or b.holds("x"))
            tokens = [term.token for member in (a, b) if (term := member.term("x")) is not None]
            assert len(tokens) == 1
            assert tokens[0] >= second.token
            assert a.health().bad_records == b.health().bad_records == 0


@pytest.mark.processes
@pytest.mark.parametrize(
    "options",
    [{"protocol": "fast-neli"}, {"protocol": "neli"}, {"protocol": "nele", "overlap": 1.0}],
    ids=["fast-neli", "neli", "nele"],
)
def test_neli_runs_on_its_log(own: Nats, options: dict[str, Any]) -> None:
    """Where partitions are shared out by claims, and times are the server's."""
    given: dict[str, Any] = {"group": "g", "roles": ["x"], "session": 2.0, **options}
    exclusive = "overlap" not in options
    with pares.Member(own.url, name="a", **given) as a:
        first = a.wait("x", timeout=HANG)
        assert first is not None
        with pares.Member(own.url, name="b", **given) as b:
            until(lambda: b.state == "live")
            a.close()
            assert not exclusive or not first
            second = b.wait("x", timeout=HANG)
            assert second is not None
            assert second.token > first.token
            own.restart(1)
            third = b.wait("x", timeout=HANG)
            assert third is not None
            assert b.health().bad_records == 0
            assert not b.health().failure


@pytest.mark.processes
def test_an_administrator_hears_that_a_group_runs_allcall(own: Nats) -> None:
    """Core NATS keeps nothing, so it listens for a while; the log is asked first."""
    url = own.url
    protocol = pares.AllCall(silence=0.0)
    with pares.Member(url, group="g", roles=["x"], protocol=protocol) as me:
        assert me.wait("x", HANG)
        with pytest.raises(pares.CapabilityError, match="members of it were heard just now"):
            pares.Admin(url, group="g")
        with pares.Admin(url, group="other") as admin:
            admin.add_role("y")
        with pares.Admin(url, group="other") as admin:
            assert admin.roles() == {"y": 1}
