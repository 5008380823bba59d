"""The asymmetric partition: the owner of a partition cut off from its group's coordinator, and not from the partition's leader.

    python -m chaos.asymmetric [--rule RULE] [--case CASE] [--session S] [--hold H] [--json] [--out FOLDER]

It is the hole of Fast NELI as its paper has it. The coordinator gives the partition to another member; the old owner hears
nothing of that, and goes on reading the partition, since reading is not fenced by membership. Under goNELI's rule (any message
re-arms the deadline) its own beats, and its successor's, keep it alive. Under ours its successor's announcement ends it. Both
are tried on three real brokers, in each case:

    cut             while the group is at rest. The client of the old owner has a clock of its own here: after a session without
                    an answer it takes its partitions for lost
    in-rebalance    while the group is being shared out anew, between the owner's request to join and the answer. The client
                    waits for that answer for as long as a rebalance may take (five minutes), and keeps what it has meanwhile

Exit codes: 0 our rule held; 1 the run could not be made or finished; 2 wrong usage; 3 our rule was broken.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from process_beliefs import Belief
from process_judge import zombie_writes
from rich import box
from rich.console import Console
from rich.table import Table

from chaos.induced import RULES, script
from chaos.processes import Crew
from chaos.scene import Scene, scratch
from chaos.verdict.report import machine
from pares.core.errors import ParesError
from pares.runtime.clock import stopwatch

CASES: Final = ("cut", "in-rebalance")
REJOINED: Final = 1 / 3
"""Of a session: after this long a member whose group is being shared out anew has asked to join (its heartbeats come every
sixth), and nobody has been given up yet. On a machine that is busy it may not have: then the cut is one of a group at rest."""


@dataclass(frozen=True)
class Trial:
    """One case under one rule. Seconds since the cut, unless said otherwise."""

    rule: str
    case: str
    cut: str
    """What was cut, in words."""
    held: float
    """How long the cut lasted."""
    old_until: float
    """The last instant before the heal at which the old owner is known to have believed."""
    new_since: float | None
    """The first instant at which the successor did; None: nobody else believed while the cut lasted."""
    both: float
    """For how long two members believed at once in one role, while the cut lasted."""
    at_the_end: bool
    """Whether two still did when the cut was healed."""
    overlaps_ever: int
    """How many pairs of beliefs of different members cross, from the first to the last."""
    refused: int
    """Writes that the fence at the sink refused."""
    stale: int
    """Writes under a term that were taken after a later one's."""
    terms: int
    moved: bool = False
    """Another broker was the coordinator when the cut was healed: nobody was cut off from that one."""


class Scene3(Scene):
    """Three brokers; a crew is called for each trial."""

    def _begin_crew(self) -> None:
        self._trials = 0

    @contextlib.contextmanager
    def trial(self, rule: str) -> Iterator[str]:
        """A crew under a rule, all of whose roles are led. The name of its group, whose coordinator is not the broker that
        leads the partition."""
        self._trials += 1
        self.until(self.whole, "every replica is in step", 90)
        group = self.until(self._group_elsewhere, "some group's coordinator is not the partition's leader", 90)
        folder = self.folder / f"{self._trials}-{rule}"
        folder.mkdir()
        self.crew = Crew(folder, self.net, self.members, self.url, self.session, script(rule, group))
        try:
            self.crew.begin()
            self.until(self.crew.all_led, "every role is led", 120)
            yield group
        finally:
            self.crew.end()

    def _group_elsewhere(self) -> str:
        names = [f"g{self._trials}-{number}" for number in range(20)]
        leader = self.leader()
        found = next((name for name in names if self.coordinator(name) != leader), "")
        if not found:
            # One broker leads everything, after the others were slow. What it led goes to those two when it is gone.
            self.kafka.kill(leader)
            self.until(lambda: self.leader() != leader, "another broker leads the partition")
            self.kafka.restart(leader)
        return found

    def owner(self) -> str:
        return self.until(lambda: next(iter(self.crew.leaders().values()), ""), "somebody leads")

    def being_shared_out(self, group: str) -> bool:
        """Whether the coordinator waits for members to join again."""
        from confluent_kafka import ConsumerGroupState

        found = self.admin.describe_consumer_groups([group], request_timeout=2)[group].result()
        return found.state == ConsumerGroupState.PREPARING_REBALANCING


def run(scene: Scene3, rule: str, case: str, hold: float) -> Trial:
    """One trial: brings a crew up, cuts its owner off for `hold` seconds, looks at what everybody believed."""
    with scene.trial(rule) as group:
        owner, broker = scene.owner(), f"b{scene.coordinator(group)}"
        standby, bystander = (place for place in scene.members if place != owner)
        time.sleep(scene.session / 2)  # all have joined, and nothing is under way
        if case == "in-rebalance":
            scene.crew.process(standby).freeze()  # nobody is given anything before it has asked to join, too
            scene.crew.dismiss(bystander)
            scene.until(lambda: scene.being_shared_out(group), "the group is being shared out anew")
            time.sleep(scene.session * REJOINED)
        with scene.net.cut([(owner, broker), (broker, owner)]):
            began = stopwatch()
            if case == "in-rebalance":
                scene.crew.process(standby).identity.signal(signal.SIGCONT)
            time.sleep(hold)
            beliefs, ended = scene.crew.beliefs(), stopwatch()
            moved = f"b{scene.coordinator(group)}" != broker
        time.sleep(scene.session / 2)
        names = scene.crew.names()
        cut = f"{owner} from {broker}, the coordinator; the partition is led by b{scene.leader()}"
        everything, folder = scene.crew.beliefs(), scene.crew.folder
        writes = scene.crew.new_writes()
    found = [belief for belief in beliefs if belief.role == 0]
    others = [b for b in found if b.member != names[owner] and b.last > began]
    mine = [b for b in found if b.member == names[owner]]
    latest = ended - 200_000_000
    return Trial(
        rule=rule,
        case=case,
        cut=cut,
        held=(ended - began) / 1e9,
        old_until=(max(b.last for b in mine) - began) / 1e9,
        new_since=(min(b.first for b in others) - began) / 1e9 if others else None,
        both=crossing(found, began, ended) / 1e9,
        at_the_end=any(b.last > latest for b in mine) and any(b.last > latest for b in others),
        overlaps_ever=sum(both_ns(a, b) > 0 for a, b in combinations(everything, 2)),
        refused=refused(folder),
        stale=len(zombie_writes(writes)),
        terms=len({(b.member, b.token) for b in everything}),
        moved=moved,
    )


def both_ns(one: Belief, other: Belief) -> int:
    """For how long two members believed in one role at once; 0 or less: they did not."""
    if one.member == other.member or one.role != other.role:
        return 0
    return min(one.last, other.last) - max(one.first, other.first)


def crossing(beliefs: Sequence[Belief], begin: int, end: int) -> int:
    """For how many nanoseconds between two instants at least two members believed at once."""
    pieces = sorted(
        (max(a.first, b.first, begin), min(a.last, b.last, end))
        for a, b in combinations(beliefs, 2)
        if both_ns(a, b) > 0
    )
    total, at = 0, begin
    for first, last in pieces:
        total += max(0, last - max(first, at))
        at = max(at, last)
    return total


def refused(folder: Path) -> int:
    """How many writes of all members the fence refused."""
    lines = [line for path in folder.glob("*.events") for line in path.read_text().splitlines()]
    return sum("stale" in json.loads(line) for line in lines)


# The command ---------------------------------------------------------------------------------------------------------


def _options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m chaos.asymmetric",
        description="The owner cut off from its group's coordinator only, on three real brokers. Needs root's rights.",
    )
    parser.add_argument("--rule", action="append", choices=RULES, help="only this rule; repeatable (both)")
    parser.add_argument("--case", action="append", choices=CASES, help="only this case; repeatable (both)")
    parser.add_argument("--session", type=float, default=6.0, metavar="SECONDS", help="the group's session (6.0)")
    parser.add_argument("--hold", type=float, default=30.0, metavar="SECONDS", help="how long the cut lasts (30)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="keep logs, beliefs and sinks in this folder")
    options = parser.parse_args(words)
    if not 1 <= options.session <= 60 or options.hold < options.session:
        parser.error("--session is 1 to 60, --hold not below --session")
    return options


def show(trials: Sequence[Trial], session: float, console: Console) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    titles = ["rule", "case", "old owner\nuntil s", "new owner\nsince s", "both\ns", "at the\nheal", "cut for\ns"]
    for title in [*titles, "crossing\nbeliefs", "writes\nrefused", "writes\nstale"]:
        table.add_column(title, justify="left" if title in ("rule", "case") else "right")
    for t in trials:
        since = "nobody" if t.new_since is None else f"{t.new_since:.3f}"
        both = "two" if t.at_the_end else "one"
        figures = [f"{t.old_until:.3f}", since, f"{t.both:.3f}", both, f"{t.held:.1f}"]
        table.add_row(t.rule, t.case, *figures, str(t.overlaps_ever), str(t.refused), str(t.stale))
    console.print(table)
    console.print(
        f"{machine()}; the group's session {session:g} s, the deadline a third of it. Seconds since the cut. Beliefs by the "
        "stopwatch that all processes share, of every member, every 2 ms.",
        soft_wrap=True,
        highlight=False,
    )
    for t in trials:
        moved = (
            "; another broker became the coordinator meanwhile, so that nobody was cut off from it" if t.moved else ""
        )
        console.print(f"{t.rule}, {t.case}: {t.cut}{moved}", soft_wrap=True, highlight=False)


def main(words: list[str] | None = None) -> int:
    options = _options(words)
    trials: list[Trial] = []
    trouble = ""
    said = Console(stderr=True)
    try:
        with scratch(options.out) as folder, Scene3(folder, options.session, 3, 0) as scene:
            for case in options.case or CASES:
                for rule in options.rule or RULES:
                    trials.append(run(scene, rule, case, options.hold))
                    said.print(f"{rule}, {case}: two believed at once for {trials[-1].both:.3f} s", highlight=False)
    except ParesError as error:
        trouble = str(error)
    except KeyboardInterrupt:
        trouble = "interrupted"
    if options.json:
        told: dict[str, Any] = {"machine": machine(), "session": options.session, "aborted": trouble or None}
        print(json.dumps(told | {"trials": [asdict(trial) for trial in trials]}, indent=1))
    else:
        show(trials, options.session, Console(width=None if sys.stdout.isatty() else 160))
        if trouble:
            print(f"aborted: {trouble}", file=sys.stderr)
    if any(t.rule == "pares" and (t.overlaps_ever or t.both > 0 or t.stale) for t in trials):
        return 3
    return 1 if trouble else 0


if __name__ == "__main__":
    sys.exit(main())
