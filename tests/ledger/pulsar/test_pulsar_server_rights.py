"""A real Pulsar with roles: with exactly the permissions in docs/security.md all works, and each one less is named."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from log_tools import until
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by

import pares
from pares.dev import Pulsar
from pares.dev.pulsar.server import NAMESPACE
from pulsar_tools import Management, guarded, token

_numbers = itertools.count()


class Guarded(NamedTuple):
    url: str
    """Of a ledger that is there."""
    admin: Management

    def role(self, rights: Sequence[Right]) -> dict[str, str]:
        """What a role with these permissions in the namespace, and no others, logs in with."""
        name = f"guest_{next(_numbers)}"
        if granted := sorted(right.right for right in rights):
            place = f"namespaces/{NAMESPACE}/permissions"
            self.admin.ask("POST", f"{place}/{name}", granted)
            until(lambda: sorted(self.admin.ask("GET", place).get(name, [])) == granted)
        return {"token": token(name)}


@pytest.fixture(scope="module")
def server() -> Iterator[Pulsar]:
    with guarded() as server:
        yield server


@pytest.fixture(scope="module")
def there(server: Pulsar) -> Guarded:
    login = token("admin")
    url = server.topic_url("rights")
    with pares.Member(url, group="g", roles=["A"], options={"options": {"token": login}}) as me:
        assert me.wait("A", PATIENCE)
    return Guarded(url, Management(server, login))


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(there: Guarded, who: str) -> None:
    for rights in (needed_by("Pulsar", who), helpful_to("Pulsar", who)):
        does_its_work(who, there.url, there.role(rights))


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(there: Guarded, who: str) -> None:
    needed = needed_by("Pulsar", who)
    for missing in needed:
        login = there.role([right for right in needed if right != missing])
        assert "lacks a right" in complaint(who, there.url, login), missing
