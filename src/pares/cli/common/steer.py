"""What the steering commands share: check the names first, ask, then wait until the log shows that it was done.

An administrator only asks, and holders act (R13). If a command returned when its request was written, it would report as done
what no holder has done yet, or may never do (a frozen holder, a barrier that still runs).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pares.cli.common.options import check_readable, told
from pares.cli.common.output import FAILED, print_json, say
from pares.core.errors import ConfigError, ParesError

if TYPE_CHECKING:
    from pares.core.wire.states import MemberState
    from pares.runtime import Admin
    from pares.view import Story

POLL_SECONDS: Final = 0.02


@contextmanager
def steering(url: str | None, group: str, check: Callable[[Story], None]) -> Iterator[tuple[Story, Admin]]:
    """A group's story and an administrator in it. `check` comes first, so that an impossible request costs no join."""
    from pares.runtime import Admin

    # Errors of the administrator are raised; its log would only repeat them.
    logging.getLogger("pares").setLevel(logging.CRITICAL)
    with told(url, group, write=True) as story:
        check(story)
        with Admin(story.log, group=group) as admin:  # type: ignore[arg-type]
            yield story, admin


def wait(story: Story, done: Callable[[], bool], timeout: float) -> bool:
    """Whether `done` comes true within `timeout` seconds of reading the log."""
    deadline = time.monotonic() + timeout
    while True:
        story.catch_up()
        check_readable(story)
        if done():
            return True
        left = deadline - time.monotonic()
        if left <= 0:
            return False
        story.poll(min(left, POLL_SECONDS))


def report(done: bool, text: str, late: str, answer: dict[str, Any], *, json: bool, timeout: float) -> None:
    """Prints how it ended. Raises `SystemExit(1)` if the command has waited in vain."""
    if json:
        print_json({**answer, "done": done})
    elif done:
        print(text)
    if done or timeout <= 0:
        if not done and not json:
            print(f"asked; {late}")
        return
    say(f"pares: it was asked for, but after {timeout:g} s {late}; watch it by `pares watch`")
    raise SystemExit(FAILED)


def need_role(story: Story, role: str) -> None:
    """Raises `ConfigError` unless the group has the role."""
    if role not in story.world.roles:
        there = ", ".join(sorted(story.world.roles)) or "none"
        raise ConfigError(f"group {story.group!r} has no role {role!r}; its roles are: {there}")


def need_member(story: Story, name: str) -> MemberState:
    """The member of that name or id (of several incarnations the newest). Raises `ConfigError` if there is none."""
    found = [m for m in story.world.members.values() if name in (m.id, m.name) and not m.administrator]
    if not found:
        there = ", ".join(sorted({m.name for m in story.world.members.values() if not m.administrator})) or "none"
        raise ConfigError(f"group {story.group!r} has no member {name!r}; its members are: {there}")
    return max(found, key=lambda member: member.joined)


def need_known(story: Story) -> None:
    """Raises `ParesError` if the log no longer tells which member holds which seat."""
    if story.adrift:
        raise ParesError(
            f"the beginning of the log at {story.url} is gone and it holds no snapshot of group {story.group!r}; "
            "start a member: it will begin the group anew"
        )


def held(story: Story, *, role: str | None = None, member: str | None = None) -> list[tuple[str, int]]:
    """The seats that are held: of one role, by one member (its id), or all."""
    return [
        key
        for key, seat in story.world.seats.items()
        if seat.holder is not None and role in (None, key[0]) and member in (None, seat.holder)
    ]
