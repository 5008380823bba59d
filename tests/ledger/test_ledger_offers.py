"""Whether something is a log is found out without a word to its service."""

from __future__ import annotations

from typing import Any, cast

import pytest

import pares
from pares.core.errors import ConfigError, LedgerUnavailable
from pares.ledger import Address, Ledger, Log, Options
from pares.ledger.base import offers
from pares.ledger.memory import MemoryLedger


class Busy(MemoryLedger):
    """Its service is up, and too busy to say how many partitions there are."""

    def __init__(self, name: str) -> None:
        url = f"memory://{name}"
        super().__init__(Address(url, "memory", name, "", {}), Options(url, {}))
        self.asked = 0

    @property
    def partitions(self) -> int:
        self.asked += 1
        raise LedgerUnavailable("no answer in time")


class Half:
    """It has some of what a log has."""

    url = kind = "half:"

    def append(self, payload: bytes, partition: int = 0) -> int:
        raise NotImplementedError


def test_a_busy_service_is_not_asked() -> None:
    ledger = Busy("offers")
    assert [offers(ledger, Log), offers(ledger, Ledger), ledger.asked] == [True, True, 0]


@pytest.mark.parametrize("it", [Half(), object(), None, "file:work", 7])
def test_what_lacks_something_is_none(it: object) -> None:
    assert not offers(it, Log)


def test_what_an_instance_has_counts_and_nothing_may_be_missing() -> None:
    it = Half()
    names = [name for name in dir(Log) if not name.startswith("_")]
    assert {"append_many", "capabilities", "partitions", "place"} <= {*names}
    for name in [name for name in names if not hasattr(it, name)]:
        assert not offers(it, Log)
        setattr(it, name, None)
    assert offers(it, Log)


def test_a_member_is_made_while_its_service_is_busy() -> None:
    ledger = Busy("offers-member")
    with pares.Member(ledger, group="g", roles=["r"]) as member:
        assert member.wait("r", 20.0)
    assert ledger.asked == 0


def test_what_is_no_log_is_refused() -> None:
    with pytest.raises(ConfigError, match="give a URL such as file:work, or an opened ledger"):
        pares.Member(cast("Any", Half()), group="g", roles=["r"])


def test_what_a_proxy_hands_on_counts_and_asks_nothing() -> None:
    class Proxy:
        """Everything is the ledger's, but what it says itself."""

        def __init__(self, ledger: Log) -> None:
            self._ledger = ledger

        @property
        def partitions(self) -> int:
            raise LedgerUnavailable("no answer in time")

        def __getattr__(self, name: str) -> Any:
            return getattr(self._ledger, name)

    assert offers(Proxy(Busy("offers-proxy")), Log)
    assert not offers(Proxy(cast("Any", Half())), Log)
