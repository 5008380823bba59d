"""A real RabbitMQ with users: with exactly the permissions in docs/security.md all works, and each one less is named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by

import pares
from pares.dev import RabbitMQ
from rabbit_tools import Management

NONE = "^$"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def url(rabbit_server: RabbitMQ) -> str:
    url = rabbit_server.stream_url("rights")
    with pares.Member(url, group="g", roles=["A"]) as me:
        assert me.wait("A", PATIENCE)
    return url


def user(server: RabbitMQ, rights: Sequence[Right]) -> str:
    """A user with these permissions, and no others."""
    name, management = f"guest_{next(_numbers)}", Management(server)
    management.user(name, "word")
    granted = {right.right: f"^{right.what.replace('STREAM', 'rights')}([:=].*)?$" for right in rights}
    management.permit(name, **{"configure": NONE, "write": NONE, "read": NONE, **granted})
    return name


def of(url: str, name: str) -> str:
    return url.replace("://", f"://{name}@")


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(rabbit_server: RabbitMQ, url: str, who: str) -> None:
    for rights in (needed_by("RabbitMQ", who), helpful_to("RabbitMQ", who)):
        does_its_work(who, of(url, user(rabbit_server, rights)), {"password": "word"})


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(rabbit_server: RabbitMQ, url: str, who: str) -> None:
    needed = needed_by("RabbitMQ", who)
    for missing in needed:
        name = user(rabbit_server, [right for right in needed if right != missing])
        text = complaint(who, of(url, name), {"password": "word"})
        assert "lacks a right" in text or "give it the right to configure, write and read" in text, (missing, text)
