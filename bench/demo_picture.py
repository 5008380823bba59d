"""docs/demo.svg, from a real run: `python -m bench.demo_picture` plays the demo and draws what its screen showed.

A picture has no room for all of it. It shows one kill and one freeze with what followed, the live table at that moment, and
the last screen; where something is left out, a line says so. Run it on a quiet machine: the figures in it are that run's.
"""

from __future__ import annotations

import argparse
import io
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console, RenderableType

from pares.demo.screen import Frame, Plain, draw, move_line
from pares.demo.show import run
from pares.demo.stage import Options
from pares.demo.summary import Summary, show
from pares.view import Move, name_of

WIDTH: Final = 92
HEIGHT: Final = 40
SCENES: Final = ("is killed", "is frozen")
AFTER_THAW: Final = 0.4
"""Seconds from the first refused write to the moment at which the table is drawn."""


class Recorder(Plain):
    """Keeps the lines of one kill and one freeze, and the table as it was right after the frozen one woke up."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.lines: list[str] = []
        self.table: RenderableType | None = None
        self._ahead = list(SCENES)
        self._victim = ""
        self._refused_at = 0.0

    def note(self, text: str) -> None: ...

    def fault(self, at: float, text: str) -> None:
        if self._ahead and self._ahead[0] in text:
            self._ahead.pop(0)
            self._victim = text.split()[0]
            self.lines += ["   [dim]…[/]"] if self.lines else []
        elif not (self._victim and re.search(rf"\b{self._victim}\b", text)):
            self._victim = self._victim if "fence" in text else ""
            return
        if "fence refused" in text and not self._refused_at:
            self._refused_at = at
        self.lines.append(f"{at:6.2f}  [bold]{text}[/]")

    def move(self, at: float, move: Move) -> None:
        if self._victim and move.before is not None and name_of(move.before) == self._victim:
            self.lines.append(move_line(at, move))

    def show(self, frame: Frame) -> None:
        if self._refused_at and self.table is None and frame.at > self._refused_at + AFTER_THAW:
            self.table = draw(frame, HEIGHT)
            self._victim = ""


def picture(path: Path, seconds: float, seed: int) -> None:
    """Raises `SystemExit` when the run broke a promise, or showed too little for a picture."""
    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        summary = run(Options(seconds=seconds, seed=seed), recorder, Path(folder) / "report.html")
    if summary.exit_code or summary.why_no_audit or recorder.table is None:
        raise SystemExit(f"no picture: {summary.document()}")
    path.write_text(drawn(recorder.lines, recorder.table, summary))


def drawn(lines: list[str], table: RenderableType, summary: Summary) -> str:
    """The picture, as SVG that fetches nothing."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    console.print("   [dim]…[/]")
    console.print(table)
    console.print("   [dim]…[/]")
    # Where the report was written is nobody's business.
    show(console, replace(summary, report=None), overlap=False)
    svg = console.export_svg(title="make demo")
    # The fonts would be fetched from the network by its viewer.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL).replace(
        "Fira Code", "ui-monospace, Menlo, Consolas"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.demo_picture", description="Draws docs/demo.svg from a run.")
    parser.add_argument("--out", type=Path, default=Path("docs/demo.svg"), metavar="FILE")
    parser.add_argument("--seconds", type=float, default=25.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    picture(options.out, options.seconds, options.seed)


if __name__ == "__main__":
    main()
