"""The command line, `pares` (also `python -m pares`).

Promised: `--help` needs none of the extras and starts nothing; every command that reads has `--json`, which puts one JSON
document on standard output and nothing else; what goes wrong is said in plain words on standard error, in one line and
without a traceback. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a promise was broken (`audit`, `sim`, `demo`).
`pares run` ends with the exit code of the command it ran.
"""

from __future__ import annotations


def main(arguments: list[str] | None = None) -> None:
    """Runs `pares ARGUMENTS` (default: those of the process). Always raises `SystemExit`, with the exit code."""
    from pares.cli.app import start

    start(arguments)
