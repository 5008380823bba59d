"""What counts (R2), written a second time; and what does not count changes nothing, and neither does history (R17).

A record counts iff it decodes, its member is in the world, its number is above every counted one of that member, it was
written under the base in force, and its version is one that all members can read. Of a join: if it can read all that has
counted.
"""

from __future__ import annotations

from pares.core.wire.changes import Began, DidChanged, MemberLeft
from pares.core.wire.records import Did, Genesis, Join
from pares.sim.members.claims.judge import Landed
from pares.sim.members.claims.records.base import OfRecords

FAR = 2**60


class Counting(OfRecords):
    name = "what counts"

    def anew(self) -> None:
        self.base = 0
        self.last = -1
        self.numbers: dict[str, int] = {}
        self.reads: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        """Members that left or died, and how many records had counted then: that is remembered for so many more (R13)."""
        self.count = 0
        self.version = -1
        self.highest = 0

    def landed(self, landed: Landed) -> None:
        expected = self._counts(landed)
        if landed.counted != expected:
            kind = type(landed.record).__name__.lower()
            says = "counted" if landed.counted else "did not count"
            raise self.broken(f"the {kind} at {landed.offset} {says}, against R2")
        if not landed.counted and landed.changes:
            raise self.broken(f"the record at {landed.offset} does not count and changed something: {landed.changes}")
        if type(landed.record) is Did and any(type(c) not in (DidChanged, MemberLeft) for c in landed.changes):
            raise self.broken(f"history at {landed.offset} changed the world: {landed.changes}")
        version = self.folded.version
        silent = not landed.counted or type(landed.record) is Did
        if silent and version != self.version and not landed.changes and self.version >= 0:
            raise self.broken(f"the record at {landed.offset} changed the world, though it must not")
        self.version = version
        if landed.counted:
            self._note(landed)
            if min(self.reads.values(), default=FAR) < self.highest:
                raise self.broken(f"version {self.highest} counts, and a member of the group can't read that")

    def _counts(self, landed: Landed) -> bool:
        record = landed.record
        if record is None or record.v > min(self.reads.values(), default=FAR):
            return False
        if isinstance(record, Genesis):
            over = -1 if record.over is None else record.over
            return record.base > self.base and self.last <= over < landed.offset
        if record.b != self.base or not self.base:
            return False
        if isinstance(record, Join) and record.reads < self.highest:
            return False
        if isinstance(record, Join):
            since = self.count - self.gone.get(record.m, self.count)
            if since >= self.folded.memory():
                return landed.counted  # forgotten, or not yet: that happens at the next place
            return record.m not in self.numbers and record.m not in self.gone
        return record.n > self.numbers.get(record.m, FAR)

    def _note(self, landed: Landed) -> None:
        record = landed.record
        assert record is not None
        self.count += 1
        for change in landed.changes:
            if type(change) is Began:
                version = self.version
                self.anew()
                self.base, self.version = change.base, version
            elif type(change) is MemberLeft:
                self.numbers.pop(change.member, None)
                self.reads.pop(change.member, None)
                superseded = change.cause == "forgotten" and change.member in self.folded.gone
                if change.cause in ("left", "died") or superseded:
                    self.gone[change.member] = self.count
        self.last = landed.offset
        self.highest = max(self.highest, record.v)
        if isinstance(record, Join):
            self.numbers[record.m], self.reads[record.m] = record.n, record.reads
        elif record.m in self.numbers:
            self.numbers[record.m] = record.n
