"""A real nats-server with permissions: with exactly those in docs/security.md all works, and each one less is named."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Sequence
from typing import Any

import pytest
from rights import PATIENCE, WHO, Right, complaint, does_its_work, helpful_to, needed_by, rights_of

import pares
import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.dev import Nats
from planted_secret import SECRET

STREAM = "work"
ROOT = {"user": "root", "password": "root-" + SECRET}
GUEST = {"user": "guest", "password": SECRET}


def _named(pattern: str) -> str:
    """With the stream's name where the page says STREAM: which NATS' own subjects have a word of, too."""
    words = pattern.split(".")
    own = words[:2] == ["$JS", "API"] and words[2] == "STREAM"
    return ".".join(STREAM if word == "STREAM" and not (own and at == 2) else word for at, word in enumerate(words))


def users(rights: Sequence[Right]) -> dict[str, Any]:
    allowed = {way: [_named(r.right) for r in rights if r.what == way] for way in ("publish", "subscribe")}
    permissions = {way: {"allow": subjects} if subjects else {"deny": [">"]} for way, subjects in allowed.items()}
    return {"authorization": {"users": [ROOT, {**GUEST, "permissions": permissions}]}}


@pytest.fixture(scope="module")
def server() -> Generator[Nats]:
    with Nats(settings=users([])) as nats:
        with pares.Member(nats.stream_url(STREAM), group="g", roles=["A"], options={"options": ROOT}) as me:
            assert me.wait("A", PATIENCE)
        yield nats


@pytest.mark.parametrize("who", WHO)
def test_with_exactly_these_it_works(server: Nats, who: str) -> None:
    for rights in (needed_by("NATS", who), helpful_to("NATS", who)):
        server.reload(users(rights))
        does_its_work(who, server.stream_url(STREAM), GUEST)


@pytest.mark.parametrize("who", WHO)
def test_each_one_less_is_named(server: Nats, who: str) -> None:
    needed = needed_by("NATS", who)
    for missing in needed:
        server.reload(users([right for right in needed if right != missing]))
        text = complaint(who, server.stream_url(STREAM), GUEST)
        assert _named(missing.right).lower().rstrip("*>") in text.lower(), missing
        assert "permissions" in text
        assert not [password for password in (ROOT["password"], GUEST["password"]) if password in text]


def test_what_is_only_better_to_have(server: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """Each alone: the member leads without it; and whoever wants the thing itself is told."""
    everything = helpful_to("NATS", "member")
    for missing in everything:
        if missing.need["member"] == "better":
            server.reload(users([right for right in everything if right != missing]))
            caplog.clear()
            does_its_work("member", server.stream_url(STREAM), GUEST)
            if "CONSUMER.CREATE" in missing.right:
                assert "no right to follow the stream" in caplog.text
    server.reload(users([right for right in everything if "PURGE" not in right.right]))
    ledger = pares.ledger.open(server.stream_url(STREAM), options=GUEST)
    with pytest.raises(LedgerUnavailable, match=r"no right.*stream\.purge"):
        ledger.trim(ledger.end())
    ledger.close()


def test_who_may_only_look_changes_nothing(server: Nats) -> None:
    server.reload(users(helpful_to("NATS", "observer")))
    ledger = pares.ledger.open(server.stream_url(STREAM), options=GUEST)
    end = ledger.end()
    for change in (lambda: ledger.append(b"x"), lambda: ledger.trim(end)):
        with pytest.raises(LedgerUnavailable, match="no right"):
            change()
    assert ledger.end() == end
    ledger.close()


def test_the_page_names_all_subjects_that_are_used(server: Nats, caplog: pytest.LogCaptureFixture) -> None:
    """With all rights of a member nothing at all is refused, also behind the user's back."""
    caplog.set_level(logging.DEBUG, "pares.nats")
    server.reload(users(helpful_to("NATS", "member")))
    does_its_work("member", server.stream_url(STREAM), GUEST)
    assert "permissions violation" not in caplog.text.lower()
    assert len(rights_of("NATS")) == 11


def test_allcall_on_core_nats(server: Nats) -> None:
    """`pares.bus.>` both ways, and answers; a subject less is named."""
    both = [Right(way, "pares.bus.>", {}, "") for way in ("publish", "subscribe")]
    answers = Right("subscribe", "_INBOX.>", {}, "")
    given: dict[str, Any] = {
        "group": "g",
        "roles": ["A"],
        "protocol": pares.AllCall(heartbeat=0.2, lease=1.0, skew=0.1),
    }
    url, options = f"nats://{server.bootstrap}", {"options": GUEST}
    server.reload(users([*both, answers]))
    with pares.Member(url, options=options, **given) as me:
        assert me.wait("A", PATIENCE), me.health()
    server.reload(users([both[0], answers]))
    with pytest.raises(LedgerUnavailable, match=r"could not listen: the user has no right.*pares\.bus\.g"):
        pares.Member(url, options=options, **given)
    server.reload(users([both[1], answers]))
    with pares.Member(url, options=options, **given) as me:
        end = time.monotonic() + PATIENCE
        while "could not publish: the user has no right" not in (said := str(me.health().unreachable)):
            assert time.monotonic() < end, me.health()
            time.sleep(0.01)
        assert "pares.bus.g" in said
