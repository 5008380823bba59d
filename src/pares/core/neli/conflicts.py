"""Members of the group with which this member can't work together, as the logs show them, and what it does about that.

A group must run a single protocol, with one number of seats. A member that finds another protocol or number there is refused
before it announces itself; a member that has announced itself goes on, and reports it (`core.coexistence` has the rules beside
members of the claims protocol).

N7 When a topic has grown, members may share out different numbers of partitions, and one role belongs to two partitions. So
   each member says its number in every partition (`width`), and leads only when that came back from each and every tenure by
   another number that stands before it must have ended. A member that reads a larger number than its own stops, and begins
   anew with the larger one. [the paper forbids M to grow]

A member that goes by the numbers of roles, and reads of a member that knows only their hashes, begins anew and goes by the
hashes, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from pares.core import events as ev
from pares.core.coexistence import Other, refusal
from pares.core.neli.config import Config
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Tenure


class Conflicts:
    """What the logs of all partitions say of members with which this one can't work together."""

    def __init__(self, config: Config, mode: str, parts: list[Partition]) -> None:
        self.config = config
        self.parts = parts
        self._mode = mode
        self._others: dict[tuple[int, int], int] = {}
        """By partition and token of a tenure of a member that shares out another number: when it must have ended."""
        self._told: set[str] = set()

    def claims(self, now: int) -> Other | None:
        """A member of this group that runs the claims protocol and may still believe, as far as this one has read."""
        found = [p.track.others.present(now, self.config.drift) for p in self.parts]
        return max((o for o in found if o is not None), key=lambda o: o.lives, default=None)

    def by_another_number(self, part: Partition, *, numbered: bool) -> list[Tenure]:
        """The open tenures in that partition whose owners share out another number of partitions."""
        shape = (self.config.partitions, numbered)
        return [t for t in part.others(self.config.id) if (t.of, t.numbered) != shape]

    def await_end(self, over_at: dict[tuple[int, int], int]) -> None:
        """Takes down when tenures by another number must have ended, by partition and token."""
        self._others |= over_at

    def over_at(self) -> int:
        """When every owner that shares out another number must have stopped believing."""
        found = [at for (number, token), at in list(self._others.items()) if token in self.parts[number].track.open]
        return max(found, default=0)

    def found(
        self, part: Partition, now: int, *, live: bool, numbered: bool
    ) -> Iterator[ev.Report | ev.Stop | ev.Restart]:
        """What follows from what was read in that partition: reports to a person, or the end of this incarnation."""
        claims = self.claims(now)
        other = str(claims) if claims is not None else self._other_protocol(part)
        announced = any(p.outbox.announced for p in self.parts)
        group, mine = self.config.group, self.config.partitions
        if other and not announced and (claims is None or claims.lives):
            yield ev.Stop("refused", refusal(group, other, self._runs()))
        if other and announced:
            text = f"in this group somebody runs {other}, and this member {self._runs()}"
            yield ev.Report("other-protocol", text)
            if claims is not None and claims.lives:  # it was there first, or did not heed this member's announcement
                yield ev.Restart(text)
        if part.track.width > mine:
            text = f"group {group!r} shares out {part.track.width} partitions, and this member {mine}"
            yield (
                ev.Restart(text)
                if all(p.wide for p in self.parts)
                else ev.Stop("refused", f"{text}: open the ledger with as many")
            )
        hashed = next((p.track.hashed for p in self.parts if p.track.hashed), "")
        if live and numbered and hashed:
            yield ev.Restart(
                f"{hashed} knows the roles of group {group!r} by the hash of their names only, as release 0.1 "
                "does: the group goes by that from now on"
            )

    def duplicate(self, member: str) -> ev.Report | None:
        """`member` has begun to share out, too: a report if it has this member's name."""
        if member.rpartition("~")[0] != self.config.name:
            return None
        text = f"{member} shares out under the name of this member ({self.config.id}); give each process its own"
        return ev.Report("duplicate-name", text)

    def once(self, report: ev.Report) -> list[ev.Effect]:
        """The report, unless one of its kind was made before in this incarnation."""
        new = report.kind not in self._told
        self._told.add(report.kind)
        return [report] if new else []

    def _other_protocol(self, part: Partition) -> str:
        """Describes a member that runs another protocol in this group, or another number of seats; empty if there is none. (The
        waits of a protocol are right only among members that run the same one.)"""
        for tenure in part.others(self.config.id):
            if tenure.protocol not in ("", self._mode):
                return f"{tenure.protocol!r} ({tenure.member})"
            if tenure.seats not in (0, self.config.seats):
                return f"{self._mode!r} with {tenure.seats} seats a role ({tenure.member})"
        return ""

    def _runs(self) -> str:
        return repr(self._mode) if self.config.seats == 1 else f"{self._mode!r} with {self.config.seats} seats a role"
