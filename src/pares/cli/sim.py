"""`pares sim`: the real protocol in virtual time, under faults, with every promise checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pares.cli.common.knobs import knob_lines
from pares.cli.common.options import AsJson

if TYPE_CHECKING:
    from pares.sim.runs import Result, Tally
    from pares.sim.shrink import Shrunk

MUTANT_SEEDS: Final = 1000


def sim(
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="P", help="Which protocol: claims, fast-neli, neli, nele or allcall.")
    ] = "claims",
    seeds: Annotated[
        int | None,
        typer.Option(
            "--seeds", metavar="N", min=1, help="How many histories. Default: 200 (at most 1000 for a mutant)."
        ),
    ] = None,
    first: Annotated[int, typer.Option("--from", metavar="SEED", min=0, help="The first seed.")] = 0,
    mutant: Annotated[
        str | None,
        typer.Option("--mutant", metavar="M", help="Break this rule on purpose (all: each in turn, list: show them)."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", metavar="J", min=1, help="Processes. Default: one for each processor.")
    ] = None,
    trace: Annotated[
        int | None, typer.Option("--trace", metavar="SEED", min=0, help="Play this one seed and show all that happens.")
    ] = None,
    shrink: Annotated[
        float,
        typer.Option(
            "--shrink", metavar="S", min=0, help="Make the first seed that breaks a promise smaller, for S seconds."
        ),
    ] = 20.0,
    json: AsJson = False,
) -> None:
    """Play groups of members through crashes, freezes, cuts and late records, and check every promise.

    Each seed is one history; the same seed is always the same history. Ends with 3 when a promise was broken, and tells the
    first such history, made as short as it can be. With --mutant one rule is broken on purpose: then it ends with 0 when that
    was noticed, and with 1 when it was not.
    """
    from pares.core.errors import ConfigError
    from pares.sim.runs import PROTOCOLS, mutant_named, processors

    if protocol not in PROTOCOLS:
        raise ConfigError(f"--protocol {protocol!r} can't be simulated; those that can: {', '.join(PROTOCOLS)}")
    if mutant == "list":
        _list(protocol, json)
        return
    if mutant != "all":
        mutant_named(mutant, protocol)
    if trace is not None:
        _trace(protocol, trace, mutant, json)
        return
    jobs = jobs or processors()
    if mutant is None:
        _clean(protocol, range(first, first + (seeds or 200)), jobs, shrink, json)
    else:
        _mutants(protocol, mutant, range(first, first + (seeds or MUTANT_SEEDS)), jobs, shrink, json)


# One seed ------------------------------------------------------------------------------------------------------------------


def _trace(protocol: str, seed: int, mutant: str | None, json: bool) -> None:
    from msgspec import to_builtins

    from pares.cli.common.output import BROKEN, print_json
    from pares.sim.runs import mutant_named, perform
    from pares.sim.shrink import readable

    outcome = perform(seed, mutant_named(mutant, protocol), told=True, protocol=protocol)
    if json:
        print_json(to_builtins(outcome))
    else:
        print("\n".join([f"seed {seed}, with:", *knob_lines(str(outcome.knobs))]))
        print("\n".join(readable(outcome.trace)))
        print(f"BROKEN  {outcome.what}" if outcome.broken else f"all promises kept, {outcome.at:.1f} virtual seconds")
    if outcome.broken:
        raise SystemExit(BROKEN)


# Clean seeds ---------------------------------------------------------------------------------------------------------------


def _clean(protocol: str, seeds: range, jobs: int, shrink: float, json: bool) -> None:
    from time import perf_counter

    from pares.cli.common.output import BROKEN, print_json, say
    from pares.runtime.config.protocols import USUAL
    from pares.sim.runs import knobs_of

    say(
        "\n".join(
            [f"seed {seeds.start}, the first of {len(seeds)}, with:", *knob_lines(str(knobs_of(seeds.start, protocol)))]
        )
    )
    began = perf_counter()
    tally = _play(protocol, seeds, None, jobs, "playing")
    took = perf_counter() - began
    answer: dict[str, Any] = {
        "seeds": tally.seeds,
        "from": seeds.start,
        "broken": [{"seed": r.seed, "promise": r.broken, "what": r.what} for r in tally.broken],
        "virtual_hours": round(tally.virtual / 3600, 3),
        "records": tally.records,
        "seconds": round(took, 2),
        "seeds_per_second": round(tally.seeds / took, 2),
        "seeds_per_second_and_core": round(tally.seeds / max(tally.took, 1e-9), 2),
        "jobs": jobs,
    }
    shrunk = _smaller(protocol, tally.broken[0].seed, None, shrink) if tally.broken else None
    if json:
        print_json(answer | _told(shrunk))
    else:
        for result in tally.broken[:20]:
            print(f"BROKEN  seed {result.seed}: {result.what}")
        if tally.broken:
            of = "" if protocol == USUAL.name else f"--protocol {protocol} "
            print(f"see all that happened: pares sim {of}--trace {tally.broken[0].seed}")
        _show(shrunk, tally.broken[0].seed if tally.broken else 0)
        played = "1 seed," if tally.seeds == 1 else f"{tally.seeds} seeds,"
        print(
            f"{played} of which {len(tally.broken)} with a broken promise; {answer['virtual_hours']:.2f} simulated hours, "
            f"{tally.records} records, {answer['seeds_per_second']} seeds/s ({answer['seeds_per_second_and_core']} a core)"
        )
    if tally.broken:
        raise SystemExit(BROKEN)


def _play(protocol: str, seeds: range, mutant: str | None, jobs: int, what: str, *, first_only: bool = False) -> Tally:
    """Plays the seeds, with a bar where somebody looks on."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from pares.cli.common.output import console
    from pares.sim.runs import Tally, results

    tally = Tally()
    screen = console(error=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, disable=not screen.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=len(seeds))
        for result in results(seeds, mutant=mutant, jobs=jobs, first_only=first_only, protocol=protocol):
            tally.add(result)
            progress.advance(task)
    return tally


# Made smaller --------------------------------------------------------------------------------------------------------------


def _smaller(protocol: str, seed: int, mutant: str | None, seconds: float) -> Shrunk | None:
    from pares.cli.common.output import say
    from pares.sim.runs import mutant_named, smaller

    if not seconds:
        return None
    say(f"seed {seed} is made smaller, for {seconds:g} s at most")
    return smaller(seed, mutant_named(mutant, protocol), protocol=protocol, seconds=seconds)


def _told(shrunk: Shrunk | None) -> dict[str, Any]:
    if shrunk is None:
        return {}
    return {"smallest": {"plan": str(shrunk.plan), "what": shrunk.outcome.what, "trace": shrunk.outcome.trace}}


def _show(shrunk: Shrunk | None, seed: int) -> None:
    from pares.sim.shrink import readable

    if shrunk is not None:
        print("\n".join([f"seed {seed}, made smaller in {shrunk.tried} plays, with:", *knob_lines(str(shrunk.plan))]))
        print("\n".join(readable(shrunk.outcome.trace)[1:]))


# Mutants -------------------------------------------------------------------------------------------------------------------


def _mutants(protocol: str, name: str, seeds: range, jobs: int, shrink: float, json: bool) -> None:
    from pares.cli.common.output import FAILED, print_json
    from pares.sim.runs import mutants

    there = mutants(protocol)
    names = list(there) if name == "all" else [name]
    answer: list[dict[str, Any]] = []
    for each in names:
        mutant = there[each]
        tally = _play(protocol, seeds, each, jobs, each, first_only=True)
        caught: Result | None = tally.broken[0] if tally.broken else None
        row: dict[str, Any] = {"mutant": each, "rule": mutant.rule, "what": mutant.what, "caught": caught is not None}
        if caught is not None:
            row |= {"seed": caught.seed, "promise": caught.broken, "said": caught.what}
        answer.append(row)
        if not json:
            where = f"seed {caught.seed}: {caught.what}" if caught else f"NOT CAUGHT in {tally.seeds} seeds"
            print(f"{mutant.rule:4} {each:28} {where}")
    if json:
        print_json(answer)
    elif len(names) == 1 and answer[0]["caught"]:
        _show(_smaller(protocol, answer[0]["seed"], name, shrink), answer[0]["seed"])
    if not all(row["caught"] for row in answer):
        raise SystemExit(FAILED)


def _list(protocol: str, json: bool) -> None:
    from pares.cli.common.output import print_json
    from pares.sim.runs import mutants

    there = mutants(protocol)
    if json:
        print_json([{"mutant": m.name, "rule": m.rule, "what": m.what} for m in there.values()])
        return
    for mutant in there.values():
        print(f"{mutant.rule:4} {mutant.name:28} {mutant.what}")
