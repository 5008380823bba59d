"""A real PostgreSQL with users: with exactly the rights in docs/security.md all works, and each one less is named."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import closing

import pytest
from postgres_harm import sql
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by, rights_of

import pares
from pares.dev import Postgres
from pares.ledger import Checked

_numbers = itertools.count()


@pytest.fixture(scope="module")
def url(postgres: Postgres) -> str:
    sql(postgres.url, "DROP TABLE IF EXISTS rights_logs, rights", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    url = postgres.table_url("rights")
    with pares.Member(url, group="g", roles=["A"]) as me:
        assert me.wait("A", PATIENCE)
    return url


def named(right: Right) -> str:
    return right.what.replace("TABLE", "rights")


def user(url: str, rights: Sequence[Right]) -> dict[str, str]:
    name = f"guest_{next(_numbers)}"
    grants = [f"GRANT {right.right} ON {named(right)} TO {name}" for right in rights]
    sql(url.partition("?")[0], f"CREATE USER {name}", *grants)
    return {"user": name}


def nameless(url: str) -> str:
    return url.replace("pares@", "", 1)


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(url: str, who: str) -> None:
    for rights in (needed_by("PostgreSQL", who), helpful_to("PostgreSQL", who)):
        does_its_work(who, nameless(url), user(url, rights))


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(url: str, who: str) -> None:
    needed = needed_by("PostgreSQL", who)
    for missing in needed:
        text = complaint(who, nameless(url), user(url, [right for right in needed if right != missing]))
        assert missing.right in text or "lacks a right" in text, missing
        assert named(missing) in text


def test_who_may_not_trim_is_told(url: str) -> None:
    assert [
        right.right
        for right in rights_of("PostgreSQL")
        if not right.need["observer"] and not right.need["administrator"]
    ]
    login = user(url, needed_by("PostgreSQL", "member"))
    with closing(pares.open(nameless(url), options=login)) as ledger:
        assert isinstance(ledger, Checked)
        assert any("lacks DELETE on rights: members can't trim" in text for _, text in ledger.checks())
