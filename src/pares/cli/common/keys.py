"""Keys that are pressed while a picture stands on the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pares.cli.common.output import console

if TYPE_CHECKING:
    from rich.console import RenderableType

QUIT = frozenset("qQ\x1b\x04")
"""q, Escape, and what Ctrl-D sends."""


@contextlib.contextmanager
def quit_key() -> Iterator[Callable[[float], bool]]:
    """Gives a function that waits so many seconds, and says whether q was pressed meanwhile (then it returns at once).

    For that time keys are read one by one, and not shown; Ctrl-C works as ever. Where standard input is no terminal, or this
    process is not in its foreground, nothing is read and the function only waits.
    """
    try:
        import select
        import termios
        import tty

        stream = sys.stdin.fileno()
        if not os.isatty(stream) or os.tcgetpgrp(stream) != os.getpgrp():
            raise OSError
        before = termios.tcgetattr(stream)
    except (ImportError, OSError, ValueError):
        yield _wait
        return

    def pressed(seconds: float) -> bool:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if select.select([stream], [], [], left)[0]:
                keys = os.read(stream, 64).decode(errors="replace")
                # An arrow key sends Escape and more: only one that stands alone is meant.
                if not keys or keys in QUIT or "q" in keys.lower().replace("\x1b", ""):
                    return True
        return False

    try:
        tty.setcbreak(stream)
        yield pressed
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def show_live(picture: Callable[[int], RenderableType], interval: float) -> None:
    """A picture for so many lines of the terminal, made anew each `interval` seconds, until q or Ctrl-C."""
    from rich.live import Live

    out = console()
    with (
        contextlib.suppress(KeyboardInterrupt),
        quit_key() as pressed,
        Live(console=out, auto_refresh=False, screen=True) as live,
    ):
        while True:
            live.update(picture(out.height), refresh=True)
            if pressed(interval):
                return
