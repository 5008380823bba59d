"""The oracle of the command line: options of every command, how each ends, and the shape of what it says with `--json`.

A shape has the keys and the types of values, not the values; of a list, what its elements have in common and apart. What needs
a broker (`pares dev kafka up`) or a Spark (`pares audit`) is not here, but for its options and its wrong usage.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import typer
from tests.cli.cli_log import OPENED, HandLog
from typer.main import get_command

from pares.cli import main
from pares.cli.app import app
from pares.core.allcall.messages import Call, Claim
from pares.core.allcall.messages import encode as encode_call
from pares.core.wire import neli_records, records

HANG: Final = 60.0
"""Seconds: what takes longer hangs."""
AT: Final = 1_700_000_000_000
BASE: Final = 5_000_000


def shape(value: Any, indent: str = "") -> str:
    """Keys and types, one key a line."""
    deeper = indent + "  "
    if isinstance(value, dict):
        lines = [f"\n{deeper}{key}: {shape(each, deeper)}" for key, each in sorted(value.items())]
        return "{" + "".join(lines) + f"\n{indent}" * bool(lines) + "}"
    if isinstance(value, list):
        return f"[{_common(value, indent)}]"
    names = {type(None): "null", bool: "true or false", int: "whole", float: "number", str: "text"}
    return names[type(value)]


def _common(values: Sequence[Any], indent: str) -> str:
    """The shape of all elements of a list: a key that some lack has a question mark."""
    tables = [value for value in values if isinstance(value, dict)]
    if not tables or len(tables) < len(values):
        return " or ".join(sorted({shape(value, indent) for value in values}))
    deeper = indent + "  "
    lines: list[str] = []
    for key in sorted({key for table in tables for key in table}):
        there = [table[key] for table in tables if key in table]
        mark = "" if len(there) == len(tables) else "?"
        shapes = {_common(there, deeper)} if all(isinstance(each, dict) for each in there) else set[str]()
        if all(isinstance(each, list) for each in there):
            shapes = {f"[{_common([one for each in there for one in each], deeper)}]"}
        said = " or ".join(sorted(shapes or {shape(each, deeper) for each in there}))
        lines.append(f"\n{deeper}{key}{mark}: {said}")
    return "{" + "".join(lines) + f"\n{indent}" * bool(lines) + "}"


# Options --------------------------------------------------------------------------------------------------------------


def commands(command: Any = None, path: tuple[str, ...] = ("pares",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    command = get_command(app) if command is None else command
    yield path, command
    for name, below in sorted(getattr(command, "commands", {}).items()):
        yield from commands(below, (*path, name))


def _parameter(param: Any) -> str:
    if param.param_type_name == "argument":
        text = f"argument {(param.metavar or param.name).upper()}"
        text += " ..." if param.nargs != 1 else ""
        return text + ("" if param.required else ", may be left out")
    names = ", ".join([*param.opts, *param.secondary_opts])
    notes = ["takes nothing" if param.is_flag else f"takes {param.metavar}"]
    notes += ["may be given again"] if param.multiple else []
    notes += ["must be given"] if param.required else []
    notes += [f"else by {param.envvar}"] if param.envvar else []
    notes += ["not in --help"] if param.hidden else []
    return f"{names}: {'; '.join(notes)}"


def _options() -> Iterator[str]:
    yield "# Commands, their arguments and options"
    for path, command in commands():
        yield ""
        yield " ".join(path)
        told = [_parameter(param) for param in command.get_params(typer.Context(command))]
        yield from (f"  {line}" for line in sorted(told))


# How they end, and what they say --------------------------------------------------------------------------------------


class Ended:
    """One command that ran here, in this process: how it ended, and what it said."""

    def __init__(self, *arguments: str) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            main([*arguments])
        self.code, self.out, self.err = end.value.code, out.getvalue(), err.getvalue()

    def __str__(self) -> str:
        said = "nothing said"
        if self.out:
            try:
                said = shape(json.loads(self.out))
            except ValueError:
                said = "text"
        return f"{self.code}, {said}"


BEGIN_ONE: Final = ("run", "demo")
"""Commands that begin a ledger where there is none."""


def _of_all(url: str) -> Iterator[str]:
    """What any command does with wrong usage. (`--help` of all: tests/cli/test_cli_help.py.)"""
    yield "\n# How each command ends: with an option that there is not; on a ledger that is not there"
    for path, command in commands():
        names = {name for param in command.get_params(typer.Context(command)) for name in param.opts}
        words = path[1:]
        needed = [
            "1" if param.param_type_name == "argument" else f"{param.opts[0]}=1"
            for param in command.get_params(typer.Context(command))
            if param.required
        ]
        line = [Ended(*words, *needed, "--no-such-option").code]
        if "--ledger" in names and path[-1] not in BEGIN_ONE:
            line.append(Ended(*words, *needed, "--ledger", url).code)
        yield f"{' '.join(path)}: {', '.join(map(str, line))}"


def _group(folder: Path) -> HandLog:
    """A group with a leader, a handover, a takeover, a pause, a role of two seats, a member that drains, and a bad record."""
    log = HandLog(folder / "work.db", session=60_000, due=60_000)
    for name in ("ann", "bob", "cyd"):
        log.join(name)
    for name, fields in {"feed": {}, "pair": {"seats": 2}, "idle": {}}.items():
        log.role(name, **fields)
    token = log.claim("ann", "feed")
    log.transfer("ann", "feed", token, "bob", "balance")
    last = log.claim("cyd", "feed", over="bob")
    log.claim("ann", "pair")
    log.put(records.Did, "cyd", seat=("feed", 0), token=last, what="lead", at=AT, why="silent")
    log.put(records.Pause, "chief", ms=600_000, scope="idle")
    log.put(records.Ask, "chief", drain="bob~1")
    log.raw(b"no record")
    return log


STEERED: Final = (
    ("roles", "add", "more", "--seats", "2"),
    ("roles", "remove", "more"),
    ("handover", "feed", "--timeout", "0"),
    ("handover", "feed", "--to", "ann", "--timeout", "0"),
    ("handover", "nope"),
    ("drain", "ann", "--timeout", "0"),
    ("drain", "nope"),
    ("pause", "--seconds", "600", "--timeout", "0"),
    ("pause", "--role", "feed", "--seconds", "600", "--timeout", "0"),
    ("resume", "--timeout", "0"),
    ("resume", "--timeout", "0"),
    ("resume", "--role", "feed", "--timeout", "0"),
)
READ: Final = (
    ("watch",),
    ("watch", "--moves", "0"),
    ("watch", "--group", "nope"),
    ("history",),
    ("history", "--limit", "1"),
    ("history", "--role", "nope"),
    ("roles",),
    ("roles", "list"),
    ("doctor",),
    ("doctor", "--group", "nope"),
    ("doctor", "--T", "1"),
)


def _on_a_group(folder: Path) -> Iterator[str]:
    log = _group(folder)
    yield "\n# On a group that runs claims"
    for words in (*READ, *STEERED):
        yield f"{' '.join(words)} --json: {Ended(*words, '--ledger', log.url, '--json')}"
    log.ledger.trim(4)
    yield "\n# The same, when the beginning of its log is gone and it holds no snapshot"
    for words in (("watch",), ("history",), ("roles",), ("doctor",), ("handover", "feed"), ("pause", "--seconds", "1")):
        yield f"{' '.join(words)} --json: {Ended(*words, '--ledger', log.url, '--json')}"


def _on_neli(folder: Path) -> Iterator[str]:
    log = HandLog(folder / "neli.db", options="?partitions=2")
    for partition in (0, 1):
        n = 0
        for kind, fields in (
            (neli_records.PartitionCount, {"of": 2, "at": AT, "roles": (str(partition),)}),
            (
                neli_records.Announce,
                {
                    "name": "ann",
                    "within": 2000,
                    "drift": 0.1,
                    "of": 2,
                    "at": AT,
                    "protocol": "fast-neli",
                    "session": 6000,
                },
            ),
        ):
            n += 1
            made = kind(v=1, g="n", m="ann~1", n=n, b=BASE, s=400, **fields)  # pyright: ignore[reportCallIssue]
            offset = log.ledger.append(neli_records.encode(made), partition)
        for lead in (False, True):
            n += 1
            pulse = neli_records.Pulse(
                v=1, g="n", m="ann~1", n=n, b=BASE, s=400, term=BASE + offset, within=2000, at=AT, lead=lead
            )
            log.ledger.append(neli_records.encode(pulse), partition)
    yield "\n# On a group that runs Fast NELI, and before one runs NELI"
    for words in (
        ("watch", "--group", "n"),
        ("history", "--group", "n"),
        ("roles", "--group", "n"),
        ("doctor", "--group", "n"),
        ("doctor", "--group", "m", "--protocol", "fast-neli", "--session", "6"),
        ("doctor", "--group", "m", "--protocol", "neli", "--T", "2", "--session", "6", "--clock-error", "0.5"),
        ("doctor", "--group", "m", "--protocol", "neli", "--T", "0"),
    ):
        yield f"{' '.join(words)} --json: {Ended(*words, '--ledger', log.url, '--json')}"


def _on_allcall(folder: Path) -> Iterator[str]:
    """Two sides of a split, who each say that they lead. What a command hears is said while it listens."""
    from pares.cli.common import allcall as command
    from pares.ledger import open_bus
    from pares.runtime.allcall.observer import AllCallObserver

    url = f"sqlite:///{folder}/calls.db"
    open_bus(url).close()
    calls: list[bytes] = []
    for rank, name in enumerate(("ann", "bob")):
        claim = Claim(role="feed", holder=f"{name}~1", rank=rank, term=7, seq=1, ttl=600_000, expires=AT)
        fields: dict[str, Any] = {"h": "h1", "t": [1000, 10_000, 500], "o": "lease"}
        call = Call(v=1, k="ping", g="g", m=f"{name}~1", n=1, s=AT, r=rank, p="ping", e=["feed"], c=[claim], **fields)
        calls.append(encode_call(call))
    heard: list[AllCallObserver] = []

    class Listening(AllCallObserver):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            heard.append(self)

    def said(_: float) -> None:
        bus = open_bus(url)
        for call in calls:
            bus.publish("g", call)
        bus.close()
        end = time.monotonic() + HANG
        while True:
            with heard[-1].lock:
                if heard[-1].overheard.messages >= len(calls):
                    return
            assert time.monotonic() < end, "what was said is not heard"
            time.sleep(0.001)

    yield "\n# On a group that runs ALLCALL, and two of it say that they lead"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pares.runtime.allcall.observer.AllCallObserver", Listening)
        patch.setattr(command.time, "sleep", said)
        for words in (("watch",), ("doctor",)):
            ended = Ended(*words, "--ledger", url, "--group", "g", "--protocol", "allcall", "--json")
            yield f"{' '.join(words)} --json: {ended}"


SEEDS: Final = {"claims": "2", "fast-neli": "5", "neli": "4", "nele": "5", "allcall": "4"}
"""Seeds that are quickly played."""


def _simulated() -> Iterator[str]:
    yield "\n# The simulation"
    yield f"sim --protocol nope: {Ended('sim', '--protocol', 'nope')}"
    yield f"sim --mutant nope: {Ended('sim', '--mutant', 'nope')}"
    for protocol, seed in SEEDS.items():
        for words in (("--from", seed, "--seeds", "1", "--jobs", "1"), ("--mutant", "list")):
            ended = Ended("sim", "--protocol", protocol, *words, "--json")
            yield f"sim --protocol {protocol} {' '.join(words)} --json: {ended}"
    caught = ("sim", "--mutant", "no-compare", "--from", "5", "--seeds", "1", "--jobs", "1", "--json")
    yield f"{' '.join(caught)}: {Ended(*caught)}"
    for words in ((), ("--mutant", "no-compare")):
        ended = Ended("sim", "--trace", "5", *words, "--json")
        told = json.loads(ended.out)
        told["knobs"] = None  # the simulation's own business
        yield f"{' '.join(('sim', '--trace', '5', *words))} --json: {ended.code}, {shape(told)}"


def _wrapped(folder: Path) -> Iterator[str]:
    """`pares run`: in processes of its own, as it takes signals and ends its children."""
    url = f"sqlite:///{folder}/run.db"
    yield "\n# `pares run`: its exit code, and the lines that it says on standard error"
    for words in (
        ("--role", "job", "--on-lost", "true", "--", sys.executable, "-c", "raise SystemExit(7)"),
        ("--role", "job", "--", "no-such-program-anywhere"),
    ):
        command = [sys.executable, "-m", "pares", "run", "--ledger", url, "--session", "60", "--json", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)
        said = [json.loads(line) for line in done.stderr.splitlines()]
        told = " ".join(words).replace(sys.executable, "python")
        yield f"run {told}: {done.returncode}"
        yield from (f"  {each.get('event')}: {shape(each, '  ')}" for each in said)


def _servers(folder: Path) -> Iterator[str]:
    yield "\n# Servers, of which none was started"
    for kind in ("kafka", "nats"):
        for words in (("status",), ("down",), ("down", "--remove")):
            ended = Ended("dev", kind, *words, "--folder", str(folder / kind), "--json")
            yield f"dev {kind} {' '.join(words)} --json: {ended}"


def _demonstrated() -> Iterator[str]:
    from tests.demo_tools import PLAYED

    yield "\n# `pares demo --json`"
    yield shape(PLAYED.document())


def command_line() -> str:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        for variable in os.environ:
            if variable.startswith("PARES_"):
                patch.delenv(variable)
        patch.setenv("NO_COLOR", "1")
        # typer makes all commands anew for each that runs, which is most of its time.
        patch.setattr("typer.main.get_command", functools.cache(get_command))
        patch.setenv("XDG_STATE_HOME", name)
        folder = Path(name)
        nowhere = f"sqlite:///{folder}/missing.db"
        try:
            parts = (_options(), _of_all(nowhere), _on_a_group(folder), _on_neli(folder), _on_allcall(folder))
            more = (_simulated(), _wrapped(folder), _servers(folder), _demonstrated())
            return "\n".join(line for part in (*parts, *more) for line in part) + "\n"
        finally:
            while OPENED:
                OPENED.pop().close()
