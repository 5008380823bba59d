"""What the demo shows: a live table on a terminal, lines elsewhere, nothing with `--json`.

Moves and faults are printed above the table and scroll away, as a log does, so that everything is still there to read when
the demo has ended; only the table is redrawn.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from pares.core.wire.shown import short_token
from pares.demo.processes import Actor
from pares.demo.quotes import TICK_MS, Last, now_ms
from pares.demo.schedule import Step, member_index
from pares.view import Move, Story, name_of

COLOURS: Final = (
    "cyan",
    "green",
    "yellow",
    "magenta",
    "blue",
    "bright_red",
    "bright_cyan",
    "bright_green",
    "bright_yellow",
)
AROUND_TABLE: Final = 8
"""Lines that the live part needs besides one for each instrument."""
STEADY_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Frame:
    """One moment of the demo."""

    at: float
    seconds: float
    story: Story
    actors: dict[str, Actor]
    quotes: Callable[[], dict[str, Last]]
    """Asked only when something is drawn."""
    next: Step | None


class Screen(Protocol):
    """Where the demo speaks."""

    def note(self, text: str) -> None:
        """A remark."""
        ...

    def fault(self, at: float, text: str) -> None:
        """Something was done to a member."""
        ...

    def move(self, at: float, move: Move) -> None:
        """A seat has changed hands."""
        ...

    def show(self, frame: Frame) -> None:
        """The present state."""
        ...

    def busy(self, text: str) -> AbstractContextManager[object]:
        """Something takes a while."""
        ...

    def busy_until_told(self, text: str) -> None:
        """Something takes a while; `progress` may say how far it is, `close` that it is over."""
        ...

    def progress(self, text: str, done: int, total: int) -> None:
        """What takes a while is so far."""
        ...

    def close(self) -> None:
        """The live part is over."""
        ...


class Silent:
    """For `--json`."""

    def note(self, text: str) -> None: ...
    def fault(self, at: float, text: str) -> None: ...
    def move(self, at: float, move: Move) -> None: ...
    def show(self, frame: Frame) -> None: ...
    def busy(self, text: str) -> AbstractContextManager[object]:
        return nullcontext()

    def busy_until_told(self, text: str) -> None: ...
    def progress(self, text: str, done: int, total: int) -> None: ...
    def close(self) -> None: ...


class Plain:
    """Lines only: for logs, pipes and terminals that can't redraw."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steady = time.monotonic()
        self._quarter = 0

    def note(self, text: str) -> None:
        self.console.print(text, soft_wrap=True)

    def fault(self, at: float, text: str) -> None:
        self.console.print(f"{at:6.2f}  [bold]{text}[/]", soft_wrap=True)

    def move(self, at: float, move: Move) -> None:
        self.console.print(move_line(at, move), soft_wrap=True)

    def show(self, frame: Frame) -> None:
        if time.monotonic() - self._steady < STEADY_SECONDS:
            return
        self._steady = time.monotonic()
        self.console.print(f"{frame.at:6.2f}  [dim]{shares(frame)}[/]", soft_wrap=True)

    def busy(self, text: str) -> AbstractContextManager[object]:
        self.note(text)
        return nullcontext()

    def busy_until_told(self, text: str) -> None:
        self.note(text)

    def progress(self, text: str, done: int, total: int) -> None:
        quarter = 4 * done // max(1, total)
        if quarter > self._quarter:
            self._quarter = quarter
            self.note(f"{text}: {done} of {total} files")

    def close(self) -> None: ...


class Table(Plain):
    """The live table."""

    def __init__(self, console: Console) -> None:

        super().__init__(console)
        self.live = self._new_live()
        self._shown = 0.0

    def _new_live(self) -> Live:
        return Live(console=self.console, auto_refresh=False, transient=True)

    def show(self, frame: Frame) -> None:
        # Ten times a second is as much as an eye can follow, and leaves the machine to the members.
        if time.monotonic() - self._shown < 0.1:
            return
        self._shown = time.monotonic()
        self._draw(draw(frame, self.console.height))

    def busy(self, text: str) -> AbstractContextManager[object]:
        return self.console.status(text)

    def busy_until_told(self, text: str) -> None:
        self._draw(Text(text))

    def progress(self, text: str, done: int, total: int) -> None:
        self._draw(Text(f"{text}: {done} of {total} files"))

    def _draw(self, what: RenderableType) -> None:
        if not self.live.is_started:
            self.live.start()
        self.live.update(what, refresh=True)

    def close(self) -> None:
        if self.live.is_started:
            self.live.stop()
            # One that is started again would first go up by as many lines as it had, over what was printed since.
            self.live = self._new_live()


def colour(name: str) -> str:
    """A member's colour: the same wherever its name stands."""
    return COLOURS[member_index(name) % len(COLOURS)]


def move_line(at: float, move: Move) -> str:
    """One move and its reason."""
    after = f" [dim](nobody held it for {move.free_ms} ms)[/]" if move.free_ms else ""
    names = [name_of(move.before), name_of(move.to)]
    hands = " → ".join(f"[{colour(name)}]{name}[/]" for name in names)
    space = " " * max(0, 11 - len(" → ".join(names)))
    return f"{at:6.2f}  {move.role:<6} {hands}{space} {move.reason()}{after}"


def shares(frame: Frame) -> str:
    """How much each member leads."""
    counts: dict[str, int] = {name: 0 for name, actor in frame.actors.items() if actor.there}
    for seat in frame.story.world.seats.values():
        if seat.holder is not None:
            counts[name_of(seat.holder)] = counts.get(name_of(seat.holder), 0) + 1
    quotes = sum(1 for last in frame.quotes().values() if now_ms() - last.at_ms < 3 * TICK_MS)
    held = ", ".join(f"{name} {count}{_mark(frame.actors.get(name))}" for name, count in counts.items())
    return f"leading: {held}; {quotes} of {len(frame.story.world.seats)} instruments have a fresh quote"


def _mark(actor: Actor | None) -> str:
    return "" if actor is None or actor.state == "live" else f" ({actor.state})"


def draw(frame: Frame, height: int) -> RenderableType:
    """The whole live part."""

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, expand=False)
    for title in ("instrument", "leader"):
        grid.add_column(title, no_wrap=True)
    for title in ("token", "leads for", "last quote", "ago"):
        grid.add_column(title, justify="right", no_wrap=True)
    seats = sorted(frame.story.world.seats.values(), key=lambda seat: seat.seat)
    room = max(3, height - AROUND_TABLE)
    now, quotes = now_ms(), frame.quotes()
    for seat in seats[:room]:
        name = None if seat.holder is None else name_of(seat.holder)
        since, last = frame.story.since.get(seat.seat), quotes.get(seat.role)
        grid.add_row(
            seat.role,
            Text("nobody", style="red") if name is None else Text(name, style=colour(name)),
            "" if name is None else short_token(seat.token),
            "" if since is None or name is None else f"{max(0, now - since) / 1000:.1f} s",
            Text("") if last is None else _price(last),
            Text("") if last is None else _ago(now - last.at_ms),
        )
    below = [_members(frame)]
    if len(seats) > room:
        below.insert(0, Text(f"and {len(seats) - room} instruments more", style="dim"))
    below.append(_next(frame))
    return Group(grid, *below)


def _price(last: Last) -> Text:

    if last.before is None or last.before == last.price:
        return Text(f"{last.price:.2f}  ")
    up = last.price > last.before
    return Text(f"{last.price:.2f} {'▲' if up else '▼'}", style="green" if up else "red")


def _ago(ms: int) -> Text:

    return Text(f"{max(0, ms)} ms", style="" if ms < 2.5 * TICK_MS else "bold red")


def _members(frame: Frame) -> Text:

    text = Text("members: ")
    held: dict[str, int] = {}
    for seat in frame.story.world.seats.values():
        held[name_of(seat.holder)] = held.get(name_of(seat.holder), 0) + 1
    for name, actor in frame.actors.items():
        if actor.there:
            text.append(name, style=colour(name))
            text.append(f" {held.get(name, 0)}{_mark(actor)}  ")
        else:
            # The name alone: a line through the spaces, too, would run on from one to the next.
            text.append(name, style="dim strike")
            text.append(f" {actor.state}  ", style="dim")
    return text


def _next(frame: Frame) -> Text:

    left = max(0.0, frame.seconds - frame.at)
    if frame.next is None:
        return Text(f"{left:4.1f} s to go", style="bold")
    wait = max(0.0, frame.next.at - frame.at)
    return Text(f"{left:4.1f} s to go; in {wait:.1f} s: {frame.next.words}", style="bold")
