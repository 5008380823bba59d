"""`pares drain NAME`: one member hands everything over and takes nothing more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, Timeout

if TYPE_CHECKING:
    from pares.view import Story


def drain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The member, by name or id.", show_default=False)],
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 30.0,
    json: AsJson = False,
) -> None:
    """Have a member hand over all it leads, and take nothing more.

    It takes roles again when it is started anew.

    The last member that could lead a role gives it up all the same: a drained group has no leaders.
    """
    from pares.cli.common.steer import held, need_known, need_member, report, steering, wait

    def check(story: Story) -> None:
        need_known(story)
        need_member(story, name)

    with steering(ledger, group, check) as (story, admin):
        member = need_member(story, name)
        before = len(held(story, member=member.id))
        admin.drain(member.id)

        def done() -> bool:
            now = story.world.members.get(member.id)
            return now is None or ((now.draining or not story.steered_here) and not held(story, member=member.id))

        finished = wait(story, done, timeout)
        left = len(held(story, member=member.id))
        answer = {"member": member.id, "handed_over": before - left, "left": left}
        text = f"{member.name} is drained; seats handed over: {before}"
        report(
            finished, text, f"{member.name} still holds {left} of {before} seats", answer, json=json, timeout=timeout
        )
