"""What a member's logs say of others that does not go with it, and what it does about that.

A group must run a single protocol, with one number of seats. A member that comes to one that runs another is refused, before it
announces itself; a member that has announced itself goes on, and reports it (`core.coexistence`, for the claims protocol).

N7 Members may share out different numbers of partitions, when a topic has grown: then one role belongs to two partitions. So
   everybody says its number in every partition (`width`), and leads only when that came back from each and nobody who shares
   out another number, and announced itself before, can be believed in any more. A member that reads a larger number than its
   own stops, and begins anew with the larger one. [the paper forbids M to grow]

One that goes by the numbers of roles, and reads of a member that knows their hashes only, begins anew, to go by the hash, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from pares.core import events as ev
from pares.core.coexistence import Other, refusal
from pares.core.neli.config import Config
from pares.core.neli.partition import Partition
from pares.core.neli.partition_log import Tenure


class Conflicts:
    """What others are about, in all partitions."""

    def __init__(self, config: Config, mode: str, parts: list[Partition]) -> None:
        self.config = config
        self.parts = parts
        self._mode = mode
        self._others: dict[tuple[int, int], int] = {}
        """Tenures, by partition and token, of members that share out another number: when they are over at the latest."""
        self._told: set[str] = set()

    def claims(self, now: int) -> Other | None:
        """A member of this group that runs the claims protocol and may still believe, as far as this one has read."""
        found = [p.track.others.present(now, self.config.drift) for p in self.parts]
        return max((o for o in found if o is not None), key=lambda o: o.lives, default=None)

    def by_another_number(self, part: Partition, *, numbered: bool) -> list[Tenure]:
        """The tenures that stand open there of members that share out another number."""
        shape = (self.config.partitions, numbered)
        return [t for t in part.others(self.config.id) if (t.of, t.numbered) != shape]

    def await_end(self, over_at: dict[tuple[int, int], int]) -> None:
        """Of tenures by another number, by partition and token."""
        self._others |= over_at

    def over_at(self) -> int:
        """When nobody who shares out another number can be believed in any more."""
        found = [at for (number, token), at in list(self._others.items()) if token in self.parts[number].track.open]
        return max(found, default=0)

    def found(
        self, part: Partition, now: int, *, live: bool, numbered: bool
    ) -> Iterator[ev.Report | ev.Stop | ev.Restart]:
        """What follows from what was read there: words to a person, and the end of this incarnation."""
        claims = self.claims(now)
        other = str(claims) if claims is not None else self._other_protocol(part)
        announced = any(p.outbox.announced for p in self.parts)
        group, mine = self.config.group, self.config.partitions
        if other and not announced and (claims is None or claims.lives):
            yield ev.Stop("refused", refusal(group, other, self._runs()))
        if other and announced:
            text = f"in this group somebody runs {other}, and this member {self._runs()}"
            yield ev.Report("other-protocol", text)
            if claims is not None and claims.lives:  # it has not been stopped by what stands here, or was here before
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
        """Somebody begins to share out, too."""
        if member.rpartition("~")[0] != self.config.name:
            return None
        text = f"{member} shares out under the name of this member ({self.config.id}); give each process its own"
        return ev.Report("duplicate-name", text)

    def once(self, report: ev.Report) -> list[ev.Effect]:
        """Each kind is told once in this incarnation's life."""
        new = report.kind not in self._told
        self._told.add(report.kind)
        return [report] if new else []

    def _other_protocol(self, part: Partition) -> str:
        """The member that runs another protocol in this group, if there is one: waits are reckoned for members that run the
        same."""
        for tenure in part.others(self.config.id):
            if tenure.protocol not in ("", self._mode):
                return f"{tenure.protocol!r} ({tenure.member})"
            if tenure.seats not in (0, self.config.seats):
                return f"{self._mode!r} with {tenure.seats} seats a role ({tenure.member})"
        return ""

    def _runs(self) -> str:
        return repr(self._mode) if self.config.seats == 1 else f"{self._mode!r} with {self.config.seats} seats a role"
