"""A run as it is told while it goes on: a bar on a terminal, else a line for each fault."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chaos.verdict.judge import Outcome

Tell = Callable[[str, Outcome | None], None]
"""Is told what goes on now, and of each outcome."""


@contextlib.contextmanager
def progress(console: Console, faults: int, first: str) -> Iterator[Tell]:
    """`first`: what goes on until somebody says something else."""
    if not console.is_terminal:

        def line(what: str, outcome: Outcome | None) -> None:
            if outcome is not None:
                console.print(words(outcome), soft_wrap=True, highlight=False)

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(first, total=faults)

        def move(what: str, outcome: Outcome | None) -> None:
            if outcome is not None:
                bar.console.print(words(outcome), soft_wrap=True, highlight=False)
                bar.advance(task)
            else:
                bar.update(task, description=what)

        yield move


def words(outcome: Outcome) -> str:
    """A fault and what came of it, in a line."""
    led = "NOT LED AGAIN" if outcome.led is None else f"led again after {outcome.led:.3f} s"
    wrong = "".join(f" BROKEN: {words}." for words in outcome.broken())
    wrong += "".join(f" {words}." for words in outcome.fallen)
    wrong += f" lost again for {outcome.lost:.3f} s." if outcome.lost > 0.1 else ""
    wrong += f" NOT MADE: {outcome.unmade}." if outcome.unmade else ""
    return (
        f"{outcome.number:4} {outcome.kind:16} {outcome.what}, {outcome.lasted:.1f} s; {led}, no leader for "
        f"{outcome.without:.3f} s.{wrong}"
    )
