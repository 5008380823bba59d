"""A real Redis with users: with exactly the rights in docs/security.md all works, and each one less is named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing

import pytest
from redis_harm import ask
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by

import pares
from pares.dev import Redis
from pares.ledger import Checked

_numbers = itertools.count()


@pytest.fixture(scope="module")
def url(redis_server: Redis) -> str:
    url = redis_server.stream_url("rights")
    with pares.Member(url, group="g", roles=["A"]) as me:
        assert me.wait("A", PATIENCE)
    return url


def user(server: Redis, rights: Sequence[Right]) -> dict[str, str]:
    name = f"guest_{next(_numbers)}"
    granted = [right.right.replace("STREAM", "rights") for right in rights]
    ask(server, "ACL", "SETUSER", name, "on", ">word", "resetchannels", *granted)
    return {"username": name, "password": "word"}


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(redis_server: Redis, url: str, who: str) -> None:
    for rights in (needed_by("Redis", who), helpful_to("Redis", who)):
        does_its_work(who, url, user(redis_server, rights))


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(redis_server: Redis, url: str, who: str) -> None:
    needed = needed_by("Redis", who)
    for missing in needed:
        ask(redis_server, "SCRIPT", "FLUSH")  # what it knows, nobody has to show it
        text = complaint(who, url, user(redis_server, [right for right in needed if right != missing]))
        assert "lacks a right; docs/security.md has the ACL" in text, missing


def test_doctor_can_do_without_most(redis_server: Redis, url: str) -> None:
    login = user(redis_server, needed_by("Redis", "observer"))
    with closing(pares.open(url, options=login, readonly=True)) as ledger:
        assert isinstance(ledger, Checked)
        assert any("may not ask for appendfsync" in text for _, text in ledger.checks())
