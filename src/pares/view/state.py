"""The present state of a group as plain values: what `--json` prints, and what tables are made of."""

from __future__ import annotations

from typing import Any

from pares.core.wire.states import MemberState
from pares.view.story import Move, Story, name_of


def state(story: Story, now_ms: int, *, moves: int = 10) -> dict[str, Any]:
    """Roles, members, pauses and the last `moves` moves. Ages are in seconds, by the wall clock (`now_ms`)."""
    return {
        "group": story.group,
        "ledger": story.url,
        "records": story.records,
        "known": not story.adrift,
        "roles": roles(story, now_ms),
        "members": members(story, now_ms),
        "partitions": partitions(story),
        "pauses": pauses(story, now_ms),
        "moves": [move_row(move) for move in story.moves[-moves:]] if moves else [],
    }


def roles(story: Story, now_ms: int) -> list[dict[str, Any]]:
    """One row a seat, by role."""
    world = story.world
    rows: list[dict[str, Any]] = []
    for key in sorted(world.seats):
        seat, role = world.seats[key], world.roles[key[0]]
        holder = world.members.get(seat.holder) if seat.holder is not None else None
        rows.append(
            {
                "role": seat.role,
                "seat": seat.index,
                "seats": role.seats,
                "weight": role.weight,
                "spread": role.spread,
                "leader": None if holder is None else holder.name,
                "member": seat.holder,
                "host": None if holder is None else holder.host,
                "token": seat.token if seat.holder is not None else None,
                "since_ms": story.since.get(key),
                "age": _age(story.since.get(key), now_ms),
                "mark": seat.mark,
                "pinned": seat.pinned,
                "paused": world.paused(seat.role),
                "removed": role.removed,
            }
        )
    return rows


def partitions(story: Story) -> list[dict[str, Any]]:
    """One row a partition, also for those that carry no role; none for a group that shares out no partitions."""
    return [
        {"partition": number, "roles": roles, "leader": None if member is None else name_of(member), "member": member}
        for number, roles, member in story.shared_out()
    ]


def members(story: Story, now_ms: int) -> list[dict[str, Any]]:
    """One row a member, by name."""
    world = story.world
    return [
        {
            "member": member.id,
            "name": member.name,
            "host": member.host,
            "zone": member.zone,
            "labels": member.labels,
            "rank": member.rank,
            "weight": member.weight,
            "protocol": member.protocol,
            "session": member.session_ms / 1000,
            "overlap": member.overlap_ms / 1000,
            "administrator": member.administrator,
            "seats": len(world.held.get(member.id, ())),
            "health": health(story, member, now_ms),
            "last_record_age": _age(story.heard.get(member.id), now_ms),
            "due": member.due_ms / 1000,
            "provable": member.lock is not None,
            "reads": member.reads,
        }
        for member in sorted(world.members.values(), key=lambda m: (m.name, m.joined))
    ]


def health(story: Story, member: MemberState, now_ms: int) -> str:
    """live, draining, overdue (as placement sees it, R16), or silent: for a session longer than it had announced.

    Judged by the wall clock of the ledger's entries and of this host, so it is for people; members use stopwatches.
    """
    heard = story.heard.get(member.id)
    if heard is None:
        return "silent"
    age = now_ms - heard
    if age > member.due_ms + member.session_ms:
        return "silent"
    if age > 2 * member.due_ms + member.session_ms // 4:
        return "overdue"
    return "draining" if member.draining else "live"


def pauses(story: Story, now_ms: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for offset in sorted(story.world.pauses):
        pause, at = story.world.pauses[offset], story.paused.get(offset)
        rows.append(
            {
                "role": pause.scope,
                "seconds": pause.ms / 1000,
                "by": pause.by,
                "offset": offset,
                "since_ms": at,
                "left": None if at is None else max(0.0, round((at + pause.ms - now_ms) / 1000, 3)),
            }
        )
    return rows


def move_row(move: Move) -> dict[str, Any]:
    """A move as plain values."""
    return {
        "offset": move.offset,
        "at_ms": move.at_ms,
        "role": move.seat[0],
        "seat": move.seat[1],
        "from": None if move.before is None else name_of(move.before),
        "from_member": move.before,
        "to": None if move.to is None else name_of(move.to),
        "to_member": move.to,
        "token": move.token,
        "cause": move.cause,
        "why": move.why,
        "reason": move.reason(),
        "free_ms": move.free_ms,
    }


def _age(since_ms: int | None, now_ms: int) -> float | None:
    return None if since_ms is None else max(0.0, round((now_ms - since_ms) / 1000, 3))
