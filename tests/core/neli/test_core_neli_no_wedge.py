"""No member of the NELI family waits for what will not come: whatever happened before, a revocation is answered as soon as
appends come back, and what the group gives to a member is led as soon as nobody else can believe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from neli_bench import Bench, config, fast, neli

from pares.core.events import Append, Assigned, Barrier, Failed, Lost, Revoked, WorkOver, Yielded
from pares.core.wire.neli_records import Announce, Yield

ANSWERED_MS = 1000
"""Twice the longest pause after an append that failed."""
LED_MS = 3000
"""Several times as long as the two deadlines and the pause that may have to pass."""
STEP_MS = 10
FAULTS = ("revoke", "lose", "wait", "freeze", "miss", "doubt", "late", "rival", "gone")
HAPPENS = st.sampled_from((*FAULTS, *(4 * ("give", "read", "tick", "land", "well"))))
STORIES = st.lists(HAPPENS, max_size=40)


class Story:
    """A member, its group and a rival. `late`: appends of unknown outcome that have yet to land."""

    def __init__(self, kind: Any) -> None:
        self.bench = Bench(kind(config()))
        self.given = self.revoking = False
        self.puts: list[Append] = []
        self.late: list[bytes] = []
        self.rival: int | None = None
        self.seen = 0

    def heed(self) -> None:
        """Nothing runs in the member's terms, so the barrier returns at once."""
        while self.seen < len(self.bench.effects):
            effect = self.bench.effects[self.seen]
            self.seen += 1
            if isinstance(effect, Barrier):
                self.bench.step(WorkOver(effect.seat, effect.token))
            elif isinstance(effect, Yielded):
                self.revoking = False

    def happen(self, what: str) -> None:
        bench = self.bench
        if what == "give" and not self.given and not self.revoking:
            self.given = True
            bench.step(Assigned((0,)))
        elif what == "revoke" and self.given:
            self.given, self.revoking = False, True
            bench.step(Revoked((0,)))
        elif what == "lose" and self.given:
            self.given = False
            bench.step(Lost((0,)))
        elif what in ("wait", "freeze"):
            bench.wait(40 if what == "wait" else 1500)
        elif what == "read":
            bench.read()
        elif what == "tick":
            self.puts += bench.tick()
        elif what == "land" and self.puts:
            bench.put(self.puts.pop(0))
        elif what in ("miss", "doubt") and self.puts:
            put = self.puts.pop(0)
            bench.step(Failed(put.ticket, unknown=what == "doubt"))
            if what == "doubt":
                self.late.append(put.payloads[0])
        elif what == "late" and self.late:
            bench.land(self.late.pop(0))
        elif what == "rival" and self.rival is None:
            base = max(bench.core.parts[0].track.top, bench.core.writer.largest) + 1000
            self.rival = base + bench.write(Announce, "rival~1", b=base)
        elif what == "gone" and self.rival is not None:
            bench.write(Yield, "rival~1", term=self.rival, led=False)
            self.rival = None
        elif what == "well":
            self.goes_on()
        self.heed()

    def goes_on(self) -> None:
        """All is well: appends land, and are read."""
        for what in ("late", *["land"] * len(self.puts), "read", "tick", "land", "read"):
            self.happen(what)
        self.bench.wait(STEP_MS)
        self.heed()

    def until(self, what: Callable[[], bool], ms: int, saying: str) -> None:
        for _ in range(ms // STEP_MS):
            if what():
                return
            self.goes_on()
        assert what(), saying


@pytest.mark.parametrize("kind", [fast, neli])
@given(happened=STORIES)
def test_a_revocation_is_answered_whatever_happened_before(kind: Any, happened: list[str]) -> None:
    story = Story(kind)
    for what in (*happened, "revoke"):
        story.happen(what)
    story.until(lambda: not story.revoking, ANSWERED_MS, "the group waits for an answer")


@pytest.mark.parametrize("kind", [fast, neli])
@given(happened=STORIES, last=st.sampled_from(FAULTS))
def test_what_the_group_gives_is_led_whatever_happened_before(kind: Any, happened: list[str], last: str) -> None:
    story = Story(kind)
    for what in (*happened, "give", "well", "well", last, "well"):
        story.happen(what)
    story.until(lambda: not story.revoking, ANSWERED_MS, "the group waits for an answer")
    for what in ("gone", "give"):
        story.happen(what)
    story.until(lambda: bool(story.bench.leading()), LED_MS, "nobody leads what the group has given")
