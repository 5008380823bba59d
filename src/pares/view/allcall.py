"""The present state of an ALLCALL group as plain values: what `--json` prints, and what tables are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pares.core.allcall.messages import token
from pares.runtime.clock import stopwatch
from pares.view.story import name_of

if TYPE_CHECKING:
    from pares.core.allcall.election import Known
    from pares.core.allcall.listener import Overheard, Speaker
    from pares.runtime.allcall.observer import AllCallObserver

SECOND = 1e9


def heard_state(observer: AllCallObserver, where: str) -> dict[str, Any]:
    """Roles, members and disagreement, as far as they were heard. Ages and leases are in seconds."""
    observer.read()
    with observer.lock:
        overheard, now = observer.overheard, stopwatch()
        return {
            "group": observer.group,
            "ledger": where,
            "protocol": "allcall",
            "messages": overheard.messages,
            "bad": sum(overheard.bad.values()),
            "roles": [_role(overheard, role, now) for role in overheard.roles()],
            "members": [_member(overheard, speaker, now) for speaker in overheard.members()],
            "disagreement": [
                {"role": role, "views": _views(views), "claims": len(overheard.claims(role, now))}
                for role, views in overheard.disagreement(now).items()
            ],
        }


def _role(overheard: Overheard, role: str, now: int) -> dict[str, Any]:
    claims = overheard.claims(role, now)
    nobody: dict[str, Any] = dict.fromkeys(("leader", "member", "rank", "token", "lease_left"))
    return {
        "role": role,
        **(_claim(claims[0], now) if claims else nobody),
        "agreed": role not in overheard.disagreement(now),
        "other_claims": [_claim(claim, now) for claim in claims[1:]],
        "may_lead": [
            speaker.id for speaker in overheard.members() if role in speaker.roles and speaker.phase == "ping"
        ],
    }


def _claim(claim: Known, now: int) -> dict[str, Any]:
    return {
        "leader": name_of(claim.holder),
        "member": claim.holder,
        "rank": claim.rank,
        "token": token(claim.term, claim.holder),
        "lease_left": max(0, claim.deadline - now) / SECOND,
    }


def _member(overheard: Overheard, speaker: Speaker, now: int) -> dict[str, Any]:
    return {
        "member": speaker.id,
        "name": speaker.name,
        "host": speaker.host,
        "rank": speaker.rank,
        "phase": speaker.phase,
        "heard_age": (now - speaker.heard) / SECOND,
        "leads": [
            role for role in overheard.roles() if any(c.holder == speaker.id for c in overheard.claims(role, now))
        ],
        "roles": [*speaker.roles],
        "views": {role: name_of(leader) for role, leader in sorted(speaker.views.items())},
        "clock_ahead": speaker.ahead_ms / 1000,
        "heartbeat": speaker.heartbeat_ms / 1000,
        "lease": speaker.lease_ms / 1000,
        "skew": speaker.skew_ms / 1000,
        "order": speaker.order,
    }


def _views(views: dict[str | None, list[str]]) -> list[dict[str, Any]]:
    return [
        {"leader": None if leader is None else name_of(leader), "says": [name_of(member) for member in members]}
        for leader, members in views.items()
    ]
