"""Histories of a group: what several members wrote, most of it sensible, and some of it late, doubled, forged or mad.

A history is drawn as a list of small moves, and played by an `Author` who sees the world as it is, so that claims name the
right record and tokens are those in force, except where a move's twist says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from core_authors import BASE, Paper, Pen, Plain, raw
from hypothesis import strategies as st

from pares.core.wire import reader
from pares.core.wire import records as R
from pares.core.wire.records import Seat
from pares.core.wire.world import World

ROLES = ("A", "B", "C")
Move = tuple[str, int, int, int]

SENSIBLE = {
    "join": 1, "beat": 4, "marks": 2, "claim": 5, "release": 2, "transfer": 3, "leave": 1, "obituary": 1, "ask": 1, "drain": 1,
    "role": 1, "remove": 1, "pause": 1, "resume": 2, "take": 1, "done": 1, "rewind": 1, "did": 1, "unknown": 1, "snapshot": 2,
}  # fmt: skip
MAD = {
    "copy": 3, "stale": 1, "garbage": 1, "foreign": 1, "wrong_base": 1, "version": 1, "stranger": 1, "forged_snapshot": 1,
    "genesis": 1, "bad_genesis": 1, "hole": 1,
}  # fmt: skip
"""How often each move is drawn, of those that make sense and of those that do not."""


class Author:
    """Plays moves onto a paper, and reads along."""

    def __init__(self, *, start: int = 0) -> None:
        self.paper = Paper(start)
        self.plain = Plain()
        self.base = BASE
        self.pens: dict[str, Pen] = {}
        self.incarnations = 0
        self.genesis(over=None if start == 0 else start - 1)

    @property
    def world(self) -> World:
        return self.plain.world

    def catch_up(self) -> None:
        done = self.seen
        for entry in self.paper.entries[done:]:
            self.plain.read(entry)
        self.seen = len(self.paper.entries)

    seen = 0

    def genesis(self, over: int | None) -> None:
        self.paper.genesis(self.base, over)
        self.catch_up()

    def play(self, moves: list[Move]) -> Author:
        for name, i, j, k in moves:
            getattr(self, name)(i, j, k)
            self.catch_up()
        return self

    # Picking ---------------------------------------------------------------------------------------------------------

    def pen(self, i: int) -> Pen:
        """The i-th living member; who is gone keeps its pen, for what it may still write."""
        living = sorted(id for id in self.pens if id in self.world.members)
        found = living or sorted(self.pens)
        if not found:
            self.join(i, 0, 0)
            self.catch_up()
            found = sorted(self.pens)
        return self.pens[found[i % len(found)]]

    def seat(self, j: int) -> Seat:
        seats = sorted(self.world.seats) or [("A", 0)]
        return seats[j % len(seats)]

    def held(self, pen: Pen, j: int) -> tuple[Seat, int]:
        """A seat that the member holds, and its token; any seat and its token, if it holds none."""
        mine = sorted(self.world.held.get(pen.id, ()))
        seat = mine[j % len(mine)] if mine else self.seat(j)
        state = self.world.seats.get(seat)
        return seat, state.token if state else 0

    def member(self, j: int) -> str:
        known = sorted(self.world.members) or ["nobody"]
        return known[j % len(known)]

    # Sensible moves --------------------------------------------------------------------------------------------------

    def join(self, i: int, j: int, k: int) -> None:
        self.incarnations += 1
        fields: dict[str, Any] = {"session": 100 * (1 + i), "host": f"h{j % 3}", "rank": j % 2}
        if k % 4 == 1:
            fields["eligible"] = ("A", "B")
        if k % 4 == 2:
            fields["eligible"] = ()
        if k % 2:
            fields["lock"] = R.Lock(boot="b", device="d", inode="i", file="f")
        fields["reads"] = 2 if k == 7 else 1
        fields["adrift"] = k == 3
        pen = Pen(self.paper, f"m{i}~{self.incarnations}", **fields)
        pen.base = self.base
        self.pens[pen.id] = pen
        pen.join()

    def beat(self, i: int, j: int, k: int) -> None:
        self.pen(i).beat(s=50 * k)

    def marks(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        (role, index), token = self.held(pen, j)
        pen.beat(((role, index, token + (k == 7), 10 * k), ("A", 0, token, k)))

    def claim(self, i: int, j: int, k: int) -> None:
        pen, seat = self.pen(i), self.seat(j)
        state = self.world.seats.get(seat)
        over: tuple[str, int] | None = None
        if state is not None and state.holder is not None:
            over = (state.holder, self.world.members[state.holder].offset)
        if k == 5:
            over = None
        elif k == 6 and over:
            over = (over[0], max(0, over[1] - 1))
        elif k == 7 and over:
            over = (self.member(i), over[1])
        pen.claim(seat[0], over, seat[1], free=k == 4)

    def release(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        (role, index), token = self.held(pen, j)
        pen.release(role, token - (k == 7), index, mark=5 * k if k > 3 else None, down=bool(k % 2), why="closed")

    def transfer(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        (role, index), token = self.held(pen, j)
        pen.transfer(
            role, token + (k == 7), self.member(k), index, pin=k % 3 == 0, down=k > 4, mark=k * 7 if k % 2 else None
        )

    def leave(self, i: int, j: int, k: int) -> None:
        if k < 4:
            pen = self.pen(i)
            (role, index), token = self.held(pen, j)
            pen.leave(marks=((role, index, token, k * 9),) if k else None)

    def obituary(self, i: int, j: int, k: int) -> None:
        if k < 4:
            self.pen(i).obituary(self.member(j))

    def ask(self, i: int, j: int, k: int) -> None:
        self.pen(i).write(R.Ask, seat=self.seat(j), to=self.member(k) if k % 2 else None)

    def drain(self, i: int, j: int, k: int) -> None:
        if k < 3:
            self.pen(i).write(R.Ask, drain=self.member(j))

    def role(self, i: int, j: int, k: int) -> None:
        self.pen(i).role(ROLES[j % 3], seats=1 + k % 3, weight=1 + j % 2, spread=("host", "zone", "none")[k % 3])

    def remove(self, i: int, j: int, k: int) -> None:
        if k < 4:
            self.pen(i).role(ROLES[j % 3], removed=True)

    def pause(self, i: int, j: int, k: int) -> None:
        if k < 2:
            self.pen(i).pause(None if k == 0 else ROLES[j % 3])

    def resume(self, i: int, j: int, k: int) -> None:
        known = sorted(self.world.pauses) or [0]
        self.pen(i).resume(known[j % len(known)] + (k == 7))

    def take(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        seat, token = self.held(pen, j)
        pen.write(R.Take, seat=seat, token=token, first=k * 5, last=k * 5 + j)

    def done(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        seat, token = self.held(pen, j)
        pen.write(R.Done, seat=seat, token=token, first=k, last=k + j)

    def rewind(self, i: int, j: int, k: int) -> None:
        self.pen(i).rewind((*self.seat(j), k))

    def did(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        seat, token = self.held(pen, j)
        pen.write(R.Did, seat=seat, token=token, what="lead", at=k)

    def unknown(self, i: int, j: int, k: int) -> None:
        self.pen(i).unknown(lines=k, deep=[[j]])

    def snapshot(self, i: int, j: int, k: int) -> None:
        """A true one, of a place: in one part or in two."""
        places = self.plain.places
        if not places:
            return
        upto = sorted(places)[-1 - j % min(3, len(places))]
        text = places[upto]
        cut = len(text) // 2 if k % 2 else len(text)
        chunks = [text[:cut], text[cut:]] if k % 2 else [text]
        id = f"{upto}.{self.paper.end}"
        for part, chunk in enumerate(chunks):
            if part == 1 and k > 5:
                return
            self.pen(i).write(R.Snapshot, upto=upto, id=id, part=part, parts=len(chunks), world=chunk)

    # Mad moves -------------------------------------------------------------------------------------------------------

    def copy(self, i: int, j: int, k: int) -> None:
        """Something from the past comes again: doubled, late, or after its sender was told that it had failed."""
        entries = self.paper.entries
        back = 1 + i + 6 * j + 36 * (k % 3)
        payload = entries[max(0, len(entries) - back)][2]
        if b'"k":"snapshot"' not in payload:
            self.paper.put(payload)

    def stale(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        pen.beat(n=max(0, pen.n - k))

    def garbage(self, i: int, j: int, k: int) -> None:
        self.paper.put((b"", b"{", b"[" * 500, b'{"k":"beat"}', b"\xff\x00", b"[1]", b"null", b'{"v":1e999}')[k])

    def foreign(self, i: int, j: int, k: int) -> None:
        self.pen(i).beat(g="another group")

    def wrong_base(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        pen.beat(b=pen.base + k - 3)

    def version(self, i: int, j: int, k: int) -> None:
        pen = self.pen(i)
        if k % 2:
            pen.unknown("beat" if k == 3 else "poem", v=1 + j)
        else:
            pen.beat(v=1 + j)

    def stranger(self, i: int, j: int, k: int) -> None:
        seat = self.seat(j)
        self.paper.put(
            raw(k="claim", v=1, g="g", m="stranger~1", n=k, b=self.base, s=1, seat=seat, over=None)
            if k % 2
            else raw(k="beat", v=1, g="g", m="stranger~1", n=k, b=self.base, s=1)
        )

    def forged_snapshot(self, i: int, j: int, k: int) -> None:
        """One that is no world at all: such a text must be refused by whoever would begin with it."""
        text = ("", "{}", "[]", "x" * 100, '{"base":1}', "null", '"', "[[[[")[k]
        self.pen(i).write(
            R.Snapshot, upto=max(0, self.paper.end - j), id=f"f{self.paper.end}", part=0, parts=1, world=text
        )

    def genesis_again(self, over: int | None, base: int) -> None:
        self.paper.genesis(base, over, m=f"founder~{self.paper.end}")

    def bad_genesis(self, i: int, j: int, k: int) -> None:
        """Over a record that is not the last, or under a base that is not greater."""
        if k % 2:
            self.genesis_again(self.world.last, self.base - k // 2)
        else:
            self.genesis_again(self.world.last - 1 - j, self.base + 1_000_000)

    def genesis_(self, i: int, j: int, k: int) -> None:
        if j:
            return
        self.base += 1_000_000
        self.genesis_again(self.world.last, self.base)
        for pen in self.pens.values():
            if k % 2 == 0:
                pen.base = self.base  # they go on under the new base, though they are not in the new world
        if k % 2:
            self.pens.clear()

    def hole(self, i: int, j: int, k: int) -> None:
        self.paper.hole(1 + k)


def _name(move: str) -> str:
    return "genesis_" if move == "genesis" else move


def moves(*, least: int = 0, most: int = 120, without: tuple[str, ...] = ()) -> st.SearchStrategy[list[Move]]:
    often = {**{move: 2 * count for move, count in SENSIBLE.items()}, **MAD}
    names = [_name(move) for move, count in often.items() if move not in without for _ in range(count)]
    small = st.integers(0, 5)
    move = st.tuples(st.sampled_from(names), small, small, st.integers(0, 7))
    opening: list[Move] = [
        ("join", 0, 0, 0),
        ("join", 1, 1, 1),
        ("join", 2, 2, 0),
        ("role", 0, 0, 0),
        ("role", 1, 1, 1),
    ]
    opening += [("claim", 0, 0, 0), ("claim", 1, 1, 0)]
    # Of a drawn length, because lists of any length are nearly always short ones.
    drawn = st.integers(least, most).flatmap(lambda length: st.lists(move, min_size=length, max_size=length))
    return drawn.map(lambda played: opening + played)


def histories(
    *, least: int = 0, most: int = 120, without: tuple[str, ...] = (), start: int = 0
) -> st.SearchStrategy[Author]:
    """Played histories. Each is read again by the tests; the author's own plain reader is only its eyes."""
    return moves(least=least, most=most, without=without).map(lambda drawn: Author(start=start).play(drawn))


@contextmanager
def narrow_window(window: int) -> Iterator[None]:
    """Searching for snapshots in windows as small as short histories need."""
    with patch.object(reader, "WINDOW", window):
        yield
