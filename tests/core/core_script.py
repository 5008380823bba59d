"""The language of the golden scenarios, and the play that performs them on a `Stage`.

A scenario is a text file. Lines that begin with `#` say what it shows and what would go wrong without the rule; lines that
begin with `>` are the script, one step a line; what stands between them is the trace that came out of the step above. Times
are in seconds. Members are named as on the stage; `puppet x` is one that exists in the log only, and writes what the script
says. In the trace, #N is the record at offset N, and the term that it began.

`# mutant: NAME` says which broken rule (pares.sim.members.mutants) the scenario must be able to tell from the real one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec
from core_stage import Actor, Stage
from kernel import scene as scenes
from msgspec import Struct

from pares.core.wire import records
from pares.core.wire.reader import Reader
from pares.core.wire.records import BadRecord, Seat, decode

NUMBERS: Final = {"session", "weight", "overlap", "settle", "barrier_timeout", "drift", "latency", "timeout"}
WHOLE: Final = {
    "rank",
    "seats",
    "seed",
    "begin",
    "n",
    "v",
    "b",
    "s",
    "ms",
    "mark",
    "upto",
    "part",
    "parts",
    "reads",
    "base",
}
LISTS: Final = {"roles", "eligible"}
FLAGS: Final = {"proof", "start", "check", "free", "pin", "removed", "adrift", "down", "ready"}


class Scenario(Struct):
    """What a file says: comments, steps, and after each step the lines that it brought."""

    comments: list[str]
    steps: list[tuple[str, list[str]]]

    @property
    def mutants(self) -> list[str]:
        found = [c.partition(":")[2] for c in self.comments if c.startswith("# mutant:")]
        return [name.strip() for names in found for name in names.split(",")]

    @classmethod
    def read(cls, path: Path) -> Scenario:
        made = cls([], [])
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                made.comments.append(line)
            elif line.startswith(">"):
                made.steps.append((line[1:].strip(), []))
            elif line.strip():
                made.steps[-1][1].append(line)
        return made

    def text(self) -> str:
        lines = [*self.comments, ""]
        for step, came in self.steps:
            lines += [f"> {step}", *came]
        return "\n".join(lines) + "\n"

    def played(self) -> Scenario:
        """The same script, with what comes out of it now."""
        play = Play()
        with patch.object(scenes, "QUIET_KINDS", play.quiet):
            return Scenario(self.comments, [(step, play.perform(step)) for step, _ in self.steps])


class Play:
    """Performs the steps of one script."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.quiet: list[type] = [records.Beat, records.Did]
        self.remembered: dict[str, Any] = {}
        self.told = 0

    def perform(self, step: str) -> list[str]:
        for pattern, act in COMMANDS:
            match = re.fullmatch(pattern, step)
            if match is not None:
                act(self, *match.groups())
                lines = self.stage.trace[self.told :]
                self.told += len(lines)
                return lines
        raise ValueError(f"no such step: {step!r}")

    # Words -----------------------------------------------------------------------------------------------------------

    def actor(self, name: str) -> Actor:
        return self.stage.actors[name]

    def id(self, name: str) -> str:
        """Of an actor's incarnation that is there now, or of a puppet's only one; `a~1` is itself."""
        if "~" in name:
            return name
        return self.stage.actors[name].id if name in self.stage.actors else f"{name}~1"

    def last(self, name: str) -> tuple[str, int]:
        """The member, and the offset of its last counted record."""
        id = self.id(name)
        return id, self.stage.world.members[id].offset

    def place(self, word: str) -> int:
        """An offset: `#12`, `last` (the newest entry's), `end` (the next one's), or something remembered."""
        if word.startswith("#"):
            return int(word[1:])
        if word in ("end", "last"):
            return self.stage.scene.log.end - (word == "last")
        found = self.remembered[word]
        return found[1] if isinstance(found, tuple) else found

    def fields(self, words: str | None) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for word in (words or "").split():
            key, _, value = word.partition("=")
            made[key] = self.value(key, value)
        return made

    def value(self, key: str, value: str) -> Any:
        if key in NUMBERS:
            return float(value)
        if key in LISTS:
            return tuple(part for part in value.split(",") if part)
        if key in FLAGS:
            return value == "yes"
        if key == "barrier":
            return None if value == "never" else float(value)
        if key == "seat":
            return seat(value)
        if key == "over":
            return None if value == "nobody" else self.remembered.get(value) or self.last(value)
        if key == "token":
            return self.remembered[value] if value in self.remembered else self.stage.world.seats[seat(value)].token
        if key == "beyond":
            return self.place(value)
        if key in ("to", "of", "drain"):
            return self.id(value)
        if key == "pause":
            return self.place(value)
        if key in WHOLE:
            return self.remembered[value] if value in self.remembered else int(value)
        return value

    # The stage ------------------------------------------------------------------------------------------------------

    def set_stage(self, words: str) -> None:
        self.stage = Stage(**self.fields(words))

    def tell(self, kinds: str) -> None:
        for kind in kinds.split():
            self.quiet.remove(getattr(records, kind.capitalize()[: -1 if kind.endswith("s") else None]))

    def member(self, name: str, words: str | None) -> None:
        fields = self.fields(words)
        rate = fields.pop("rate", None)
        wall = fields.pop("wall", None)
        start = fields.pop("start", True)
        actor = self.stage.member(name, start=False, **fields)
        if rate is not None:
            actor.process.stopwatch.rate = float(rate)
        actor.process.wall.offset_us = 0 if wall is None else int(float(wall) * 1_000_000)
        if start:
            actor.process.start()

    def puppet(self, name: str, words: str | None) -> None:
        fields = self.fields(words)
        if not self.stage.world.base:
            self.stage.write(self.stage.record(records.Genesis, "founder~1", b=1000, base=1000))
        fields["session"] = int(fields.get("session", 1.0) * 1000)
        lock = records.Lock(boot="boot", device="0", inode=name, file=name) if fields.pop("proof", False) else None
        said = {"name": name.partition("~")[0], "lock": lock, "reads": records.READS, **fields}
        self.stage.write(self.stage.record(records.Join, self.id(name), **said))

    def puppets(self, count: str, name: str, words: str | None) -> None:
        for number in range(int(count)):
            self.puppet(f"{name}{number}", words)

    def write(self, kind: str, name: str, words: str | None) -> None:
        """A record in anybody's name, at the end of the log, now."""
        fields = self.fields(words)
        if kind == "rewind":
            fields["marks"] = ((*fields.pop("seat"), fields.pop("mark")),)
        if kind == "beat" and "mark" in fields:
            fields["marks"] = ((*fields.pop("seat"), fields.pop("token"), fields.pop("mark")),)
        if kind == "genesis":
            fields["b"] = fields["base"] = self.stage.world.base + fields.pop("base")
            fields["over"] = fields.pop("beyond", None)
        if kind == "did":
            fields = {"what": "stop", "at": 1, **fields}
        made: Any = self.stage.record(getattr(records, kind.capitalize()), self.id(name), **fields)
        self.stage.write(records._encoder.encode(made))  # pyright: ignore[reportPrivateUsage]

    def keep_next_place(self) -> None:
        """The world at the next place for snapshots is kept, to be written by a puppet."""
        self.stage.scene.judge.wanted = True

    def write_snapshot(self, name: str) -> None:
        """Of the place that was kept, whatever has happened since."""
        taken = self.stage.scene.judge.taken
        assert taken is not None
        self.remembered["upto"] = taken.upto
        fields: dict[str, Any] = {"upto": taken.upto, "id": "s", "part": 0, "parts": 1, "world": taken.text}
        self.stage.write(self.stage.record(records.Snapshot, self.id(name), **fields))

    def write_wrong_snapshot(self, name: str) -> None:
        """The same, but somebody else is said to hold A."""
        taken = self.stage.scene.judge.taken
        assert taken is not None
        text = re.sub(r'("role":"A","index":0,"holder":)"[^"]*"', rf'\1"{self.id(name)}"', taken.text)
        fields: dict[str, Any] = {"upto": taken.upto, "id": "w", "part": 0, "parts": 1, "world": text}
        self.stage.write(self.stage.record(records.Snapshot, self.id(name), **fields))

    def write_beats(self, names: str, count: str) -> None:
        """In turn, so many each."""
        for _ in range(int(count)):
            for name in names.split(", "):
                self.write("beat", name, None)

    def write_raw(self, text: str) -> None:
        self.stage.write(text.encode())

    def write_unknown(self, kind: str, name: str) -> None:
        beat: Any = self.stage.record(records.Beat, self.id(name))
        self.stage.write(records.encode(beat).replace(b'"k":"beat"', f'"k":"{kind}","x":[1]'.encode()))

    def late_copy(self, name: str, kind: str, back: str | None) -> None:
        """Of the last one, or of the one so many before it."""
        found: list[int] = []
        for offset, _, payload in self.stage.log:
            try:
                record = decode(payload)
            except BadRecord:
                continue
            if record.m.split("~")[0] == name and type(record).__name__.lower() == kind:
                found.append(offset)
        self.stage.replay(found[-1 - int(back or 0)])

    # What happens ----------------------------------------------------------------------------------------------------

    def cut(self, name: str, what: str) -> None:
        ways = {"reads", "writes", "acks"} if what == "off" else set(re.split(r",? and |, ", what))
        self.actor(name).cut(**dict.fromkeys(ways, True))

    def set_appends(self, name: str, seconds: str) -> None:
        """From now on its appends are answered after so long; they land halfway."""
        wire, half = self.actor(name).process.wire, int(float(seconds) * 5e8)
        times = {"send": (half, half), "ack": (half, half), "timeout": 10**10, "blocking": True}
        wire.weather = msgspec.structs.replace(wire.weather, **times)

    def run_quietly(self, seconds: str) -> None:
        """What happens is of no interest here."""
        self.stage.run(float(seconds))
        self.told = len(self.stage.trace)

    def let_go_first(self, name: str) -> None:
        """The oldest append of those in the air lands, the others stay there."""
        wire = self.actor(name).process.wire
        wire.land(wire.held.pop(0))

    def freeze_at(self, name: str, seconds: str, point: str) -> None:
        self.actor(name).freeze(float(seconds), at=point)

    def set_rate(self, name: str, rate: str) -> None:
        """From now on; what it shows now does not change."""
        watch, now = self.actor(name).process.stopwatch, self.stage.scene.engine.now
        shown = watch.read(now)
        watch.rate = float(rate)
        watch.offset += shown - watch.read(now)

    def set_wall(self, name: str, seconds: str) -> None:
        self.actor(name).process.wall.offset_us = int(float(seconds) * 1_000_000)

    def rewind_log(self, place: str) -> None:
        """The log loses its tail, which it had acknowledged: no simulated log does so by itself."""
        scene, at = self.stage.scene, self.place(place)
        kept = [entry for entry in scene.log.entries() if entry[0] < at]
        cut = len(kept)
        log: Any = scene.log
        del log._offsets[cut:], log._arrived[cut:], log._entries[cut:]
        log.end = at
        scene.judge = Reader(scene.group)
        scene.judge.attach(log.start, at)
        scene.judge.feed(kept)
        self.stage.note(f"the log has lost everything from #{at} on")

    # What can be seen ------------------------------------------------------------------------------------------------

    def remember(self, key: str, what: str, of: str) -> None:
        if what == "last of":
            self.remembered[key] = self.last(of)
        elif what == "token of":
            self.remembered[key] = self.stage.world.seats[seat(of)].token
        else:
            self.remembered[key] = self.place(of)

    def show_beliefs(self) -> None:
        told = [
            f"{name} holds {', '.join(actor.seats())}" for name, actor in self.stage.actors.items() if actor.seats()
        ]
        self.stage.note("; ".join(told) or "nobody believes that it holds anything")

    def show_seat(self, name: str) -> None:
        state = self.stage.world.seats.get(seat(name))
        if state is None:
            self.stage.note(f"{name} does not exist")
            return
        more = [f"mark {state.mark}"] if state.mark else []
        more += ["pinned"] if state.pinned else []
        more += [f"avoids {state.avoid}"] if state.avoid else []
        token = self.stage.scene.story.token(state.token) if state.holder else ""
        self.stage.note(f"{name}: {' '.join([state.holder or 'free', token]).strip()}{''.join(', ' + m for m in more)}")

    def show_token(self, name: str, key: str) -> None:
        above = self.stage.world.seats[seat(name)].token > self.remembered[key]
        self.stage.note(f"the token of {name} is {'above' if above else 'NOT above'} the old one")

    def show_members(self) -> None:
        self.stage.note("members: " + ", ".join(sorted(self.stage.world.members)))

    def show_reader(self) -> None:
        """Somebody reads the log as it stands now, from where one may begin; does it live in the same world?"""
        log = self.stage.scene.log
        reader = Reader(self.stage.scene.group)
        reader.attach(log.start, log.end)
        while True:
            before = (reader.state, reader.position)
            reader.feed(e for e in log.entries() if e[0] >= reader.position)
            if (reader.state, reader.position) == before:
                break
        same = reader.world.dump() == self.stage.world.dump()
        told = "the same world" if same and reader.entered else "another world" if reader.entered else "no way in"
        bad = f", {sum(reader.bad.values())} bad records" if reader.bad else ""
        self.stage.note(f"a new reader: {told}{bad}")

    def count_beats(self, seconds: str) -> None:
        """How many records the members that hold nothing write in that time."""
        log, world = self.stage.scene.log, self.stage.world
        start = log.end
        self.stage.run(float(seconds))
        standbys = {id for id in world.members if not world.held[id]}
        found = sum(1 for offset, _, payload in log.entries() if offset >= start and decode(payload).m in standbys)
        self.stage.note(f"{len(standbys)} standbys wrote {found} records in {seconds} s")


def seat(name: str) -> Seat:
    role, _, index = name.partition("/")
    return (role, int(index or 0))


def scope(word: str) -> str | None:
    return None if word == "everything" else word


Act = Callable[..., object]
W: Final = r"(\S+)"
N: Final = r"([\d.]+)"
MORE: Final = r"(?: (.+))?"

COMMANDS: Final[list[tuple[str, Act]]] = [
    (r"stage (.+)", Play.set_stage),
    (r"tell (.+)", Play.tell),
    (rf"member {W}{MORE}", Play.member),
    (rf"puppet {W}{MORE}", Play.puppet),
    (rf"(\d+) puppets {W}{MORE}", Play.puppets),
    (rf"run {N}", lambda p, seconds: p.stage.run(float(seconds))),
    (rf"run {N} quietly", Play.run_quietly),
    (rf"start {W}", lambda p, name: p.actor(name).process.start()),
    (rf"kill {W}", lambda p, name: p.actor(name).kill()),
    (rf"restart {W}", lambda p, name: p.actor(name).restart()),
    (rf"freeze {W}", lambda p, name: p.actor(name).freeze()),
    (rf"freeze {W} for {N}", lambda p, name, seconds: p.actor(name).freeze(float(seconds))),
    (rf"freeze {W} for {N} when it has next (fetched|ticked)", Play.freeze_at),
    (rf"thaw {W}", lambda p, name: p.actor(name).thaw()),
    (rf"cut {W} (.+)", Play.cut),
    (rf"heal {W}", lambda p, name: p.actor(name).heal()),
    (rf"hold {W}'s appends", lambda p, name: p.actor(name).hold()),
    (rf"let go of {W}'s appends", lambda p, name: p.actor(name).let_go()),
    (rf"let go of the first of {W}'s appends", Play.let_go_first),
    (rf"the next append of {W} is (lost|unknown|doubled)", lambda p, name, fate: p.actor(name).next_append(fate)),
    (rf"{W} stalls for {N} between fetch and tick", lambda p, name, seconds: p.actor(name).stall(float(seconds))),
    (rf"the stopwatch of {W} runs at {N}", Play.set_rate),
    (rf"the appends of {W} take {N}", Play.set_appends),
    (rf"the wall clock of {W} is off by (-?[\d.]+)", Play.set_wall),
    (rf"{W} hands {W} over", lambda p, name, role: p.actor(name).hand_over(role)),
    (rf"{W} hands {W} over to {W}", lambda p, name, role, to: p.actor(name).hand_over(role, p.actor(to))),
    (rf"{W} steps down", lambda p, name: p.actor(name).step_down()),
    (rf"{W} drains", lambda p, name: p.actor(name).drain()),
    (rf"{W} asks for {W} to go", lambda p, name, role: p.actor(name).ask(role)),
    (rf"{W} asks for {W} to go to {W}", lambda p, name, role, to: p.actor(name).ask(role, p.actor(to))),
    (rf"{W} pauses {W} for {N}", lambda p, name, what, s: p.actor(name).pause(scope(what), seconds=float(s))),
    (rf"{W} resumes {W}", lambda p, name, what: p.actor(name).resume(scope(what))),
    (rf"{W} adds role {W}", lambda p, name, role: p.actor(name).add_role(role)),
    (rf"{W} adds role {W} seats=(\d+)", lambda p, name, role, seats: p.actor(name).add_role(role, int(seats))),
    (rf"{W} removes role {W}", lambda p, name, role: p.actor(name).remove_role(role)),
    (rf"{W} marks {W} (\d+)", lambda p, name, role, mark: p.actor(name).mark(role, int(mark))),
    (rf"{W} rewinds {W} to (\d+)", lambda p, name, role, mark: p.actor(name).rewind({seat(role): int(mark)})),
    (rf"{W} is ready", lambda p, name: p.actor(name).ready(True)),
    (rf"{W} is not ready", lambda p, name: p.actor(name).ready(False)),
    (rf"close {W}", lambda p, name: p.actor(name).close()),
    (rf"write an? {W} by {W}{MORE}", Play.write),
    (r"somebody keeps the world of the next place", Play.keep_next_place),
    (rf"{W} writes what was kept as a snapshot", Play.write_snapshot),
    (rf"{W} writes what was kept as a snapshot, and gives itself A", Play.write_wrong_snapshot),
    (r"(.+) write (\d+) beats each", Play.write_beats),
    (r"write these bytes: (.*)", Play.write_raw),
    (rf"write something unknown, a {W}, by {W}", Play.write_unknown),
    (rf"a late copy of {W}'s last (\w+) lands", lambda p, name, kind: p.late_copy(name, kind, None)),
    (rf"a late copy of {W}'s last (\w+) but (\d+) lands", Play.late_copy),
    (rf"the log is trimmed before {W}", lambda p, place: p.stage.trim(p.place(place))),
    (rf"the log loses everything from {W} on", Play.rewind_log),
    (r"another log takes the place of this one", lambda p: p.stage.replace_log()),
    (rf"remember (\w+): the (last of|token of|place) {W}", Play.remember),
    (r"who believes\?", Play.show_beliefs),
    (rf"what about {W}\?", Play.show_seat),
    (rf"is the token of {W} above (\w+)\?", Play.show_token),
    (r"who is in the group\?", Play.show_members),
    (r"what does a new reader see\?", Play.show_reader),
    (rf"count what standbys write in {N}", Play.count_beats),
]
