"""`pares handover ROLE`: a planned move of one role."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, Timeout

if TYPE_CHECKING:
    from pares.view import Story


def handover(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="The role to move.", show_default=False)],
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="NAME", help="The member that should lead it. Default: one that the holder picks."
        ),
    ] = None,
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 10.0,
    json: AsJson = False,
) -> None:
    """Move a role by plan.

    Its leader is asked to hand it over once its barrier has returned; no session passes without a leader.

    With --to the role then stays with that member until it leaves.
    """
    from pares.cli.common.steer import held, need_known, need_member, need_role, report, steering, wait
    from pares.core.errors import ConfigError, ParesError
    from pares.core.wire.shown import short_token
    from pares.view import name_of

    def check(story: Story) -> None:
        need_known(story)
        need_role(story, role)
        if not held(story, role=role):
            raise ParesError(
                f"nobody leads {role!r} now, so there is nobody who could hand it over: pares doctor says why"
            )
        if to is not None:
            receiver = need_member(story, to)
            if not story.world.may_hold(receiver, role):
                why = "its roles= or eligible= leave it out; name another"
                raise ConfigError(f"{receiver.name} is not eligible for {role!r}: {why}")
            if receiver.draining:
                raise ParesError(f"{receiver.name} is draining, so it takes nothing: name another, or start it anew")

    with steering(ledger, group, check) as (story, admin):
        before = {key: story.world.seats[key].token for key in held(story, role=role)}
        wanted = None if to is None else need_member(story, to).id
        if wanted is not None and any(story.world.seats[key].holder == wanted for key in before):
            report(True, f"{to} leads {role} already", "", {"role": role, "to": to}, json=json, timeout=timeout)
            return
        admin.hand_over(role, to=to)

        def done() -> bool:
            seats = [story.world.seats[key] for key in held(story, role=role)]
            if wanted is not None:
                return any(seat.holder == wanted for seat in seats)
            return any(seat.token not in before.values() for seat in seats)

        moved = wait(story, done, timeout)
        moves = [move for move in story.moves if move.role == role and move.token not in before.values()]
        last = moves[-1] if moves else None
        text = (
            ""
            if last is None
            else f"{role}: {name_of(last.before)} → {name_of(last.to)}, token {short_token(last.token)}"
        )
        leader = None if last is None else name_of(last.to)
        answer = {"role": role, "to": to, "leader": leader, "token": None if last is None else last.token}
        report(moved, text, f"{role} has not moved", answer, json=json, timeout=timeout)
