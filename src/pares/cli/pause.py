"""`pares pause` and `pares resume`: maintenance without leaders (R14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pares.cli.common.options import DEFAULT_GROUP, AsJson, Group, LedgerUrl, Timeout

if TYPE_CHECKING:
    from pares.view import Story

Role = Annotated[str | None, typer.Option("--role", metavar="ROLE", help="Only this role. Default: the whole group.")]


def pause(
    length: Annotated[
        float,
        typer.Option(
            "--seconds", metavar="SECONDS", min=0.001, help="The pause ends by itself after that.", show_default=True
        ),
    ] = 60.0,
    role: Role = None,
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 30.0,
    json: AsJson = False,
) -> None:
    """Have no member lead, until resume or until the time is over.

    Leaders release what they hold after their barriers have returned; claims fail.
    """
    from pares.cli.common.steer import held, need_known, need_role, report, steering, wait

    def check(story: Story) -> None:
        need_known(story)
        if role is not None:
            need_role(story, role)

    with steering(ledger, group, check) as (story, admin):
        before = set(story.world.pauses)
        admin.pause(role, seconds=length)

        def done() -> bool:
            begun = set(story.world.pauses) != before or not story.steered_here
            return begun and not held(story, role=role)

        finished = wait(story, done, timeout)
        left = len(held(story, role=role))
        what = f"group {group}" if role is None else f"role {role}"
        answer = {"role": role, "seconds": length, "still_held": left}
        text = f"{what} is paused for {length:g} s; nobody leads"
        report(finished, text, f"{left} of its seats are still held", answer, json=json, timeout=timeout)


def resume(
    role: Role = None,
    ledger: LedgerUrl = None,
    group: Group = DEFAULT_GROUP,
    timeout: Timeout = 10.0,
    json: AsJson = False,
) -> None:
    """End a pause before its time.

    Without --role it ends the pauses of the whole group, not those of single roles.
    """
    from pares.cli.common.steer import need_known, need_role, report, steering, wait
    from pares.core.errors import ParesError

    def scoped(story: Story) -> list[int]:
        return [offset for offset, pause in story.world.pauses.items() if pause.scope == role]

    def check(story: Story) -> None:
        need_known(story)
        if role is not None:
            need_role(story, role)
        if story.steered_here and not scoped(story):
            what = f"group {group!r}" if role is None else f"role {role!r}"
            single = sorted({p.scope for p in story.world.pauses.values() if p.scope is not None})
            more = (
                f"; paused are the roles {', '.join(single)} (resume them by --role)" if single and role is None else ""
            )
            raise ParesError(f"{what} is not paused{more}")

    with steering(ledger, group, check) as (story, admin):
        admin.resume(role)
        finished = wait(story, lambda: not scoped(story), timeout)
        what = f"group {group}" if role is None else f"role {role}"
        report(finished, f"{what} goes on", "the pause stands", {"role": role}, json=json, timeout=timeout)
