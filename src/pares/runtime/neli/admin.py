"""Steering a group that runs NELI or Fast NELI from outside.

The group's roles stand in the logs of its partitions, and a record that adds or removes one counts from any sender.
Which member has a partition is decided elsewhere: where claims share partitions out, an administrator of *that* group can move
and pause them; a broker's own service takes no wishes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pares.core.errors import CapabilityError, ConfigError
from pares.core.wire.neli_records import NAMES, InductionRecord, Number, Place, RolesChanged, encode
from pares.core.wire.records import check_name
from pares.ledger import Ledger, Log, partition_of
from pares.runtime.config.settings import Spread
from pares.runtime.death.incarnation import default_name
from pares.runtime.detect import newest, runs_induced
from pares.runtime.driver.kit import Steers, seat_to_move
from pares.runtime.host import Host
from pares.runtime.neli.claims_group import SUFFIX
from pares.runtime.neli.world import Tenures
from pares.runtime.views import Rewound

NOTHING_DUE: Final = 600_000


def steer(
    ledger: Ledger, group: str, name: str | None, host: Host, again: Callable[[str], Steers]
) -> TenureAdmin | None:
    """See `driver.kit.Steerer`."""
    if not runs_induced(ledger, group, partition_of(ledger.url)):
        return None
    return TenureAdmin(ledger, group, name, again, host)


class TenureAdmin:
    """See `driver.kit.Steers`. `admin`: makes an administrator of the group that shares the partitions out."""

    def __init__(self, log: Ledger, group: str, name: str | None, admin: Callable[[str], Steers], host: Host) -> None:
        self._host = host
        self._log, self.group = log, group
        self._tenures = Tenures(log, group, host)
        self._tenures.read()
        self._id = f"{name or f'admin-{default_name(host)}'}~{host.random().token_hex(4)}"
        self._numbers: dict[int, int] = {}
        self._make = admin
        self._partitions: Steers | None = None

    def roles(self) -> dict[str, int]:
        self._tenures.read()
        roles = self._tenures.world.roles.values()
        return {role.name: role.seats for role in sorted(roles, key=lambda r: r.name)}

    def add_role(self, name: str, seats: int, weight: float, spread: Spread) -> None:
        check_name("a role's name", name)
        of = self._tenures.seats
        if (seats, weight, spread) != (of, 1, "host") and (seats, weight, spread) != (1, 1, "host"):
            raise CapabilityError(
                f"group {self.group!r} runs {self._protocol()!r}, where all roles have {of} seats, on different hosts, and no "
                "weights: leave seats, weight and spread out, or use protocol='claims'"
            )
        if self._tenures.numbered and self._tenures.number(name) is None:
            self._append(0, Number, names=(name,))
            self._tenures.read()
        for seat in range(of):
            partition = self._tenures.partition(name, seat)
            if self._tenures.numbered:
                number = self._tenures.numbers.get(name, -1)
                self._append(partition, Place, roles=(name,), numbers=(number,))
            else:
                self._append(partition, RolesChanged, add=(name,))
        self._tenures.read()

    def remove_role(self, name: str) -> None:
        self._known(name)
        for seat in range(self._tenures.seats):
            self._append(self._tenures.partition(name, seat), RolesChanged, drop=(name,))
        self._tenures.read()

    def pause(self, role: str | None, *, seconds: float) -> None:
        self._of_partitions("pause").pause(self._partition(role), seconds=seconds)

    def resume(self, role: str | None) -> None:
        self._of_partitions("resume").resume(self._partition(role))

    def hand_over(self, role: str, to: str | None, seat: int | None) -> None:
        self._known(role)
        steered = self._of_partitions("hand_over")
        self._tenures.read()
        held = sorted(i for (r, i), s in self._tenures.world.seats.items() if r == role and s.holder is not None)
        seat = seat_to_move(role, seat, held)
        name = None if to is None else to.rpartition("~")[0] or to
        steered.hand_over(self._partition(role) or "0", name, seat)

    def drain(self, member: str) -> None:
        self._of_partitions("drain").drain(member.rpartition("~")[0] or member)

    def positions(self) -> dict[tuple[str, int], int]:
        raise self._no_marks("positions")

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> list[Rewound]:
        raise self._no_marks("rewind")

    def _no_marks(self, what: str) -> CapabilityError:
        return CapabilityError(
            f"{what} is not in protocol {self._protocol()!r}, whose records carry no marks: use protocol='claims'"
        )

    def close(self) -> None:
        if self._partitions is not None:
            self._partitions.close()

    # How -----------------------------------------------------------------------------------------------------------------

    def _protocol(self) -> str:
        return next((m.protocol for m in self._tenures.world.members.values() if m.protocol), "neli")

    def _known(self, role: str) -> None:
        if role not in self.roles():
            raise ConfigError(f"group {self.group!r} has no role {role!r}; it has: {', '.join(self.roles()) or 'none'}")

    def _partition(self, role: str | None) -> str | None:
        """The name of this role's partition, which is a role of the group that shares partitions out. None stays None."""
        if role is None:
            return None
        self._tenures.read()
        return str(self._tenures.partition(role))

    def _of_partitions(self, what: str) -> Steers:
        if self._partitions is None:
            group = self.group + SUFFIX
            if not has_group(self._log, group):
                raise CapabilityError(
                    f"{what} is not in protocol {self._protocol()!r} on {self._log.url}: its own service gives out "
                    "partitions, to whom it likes, and takes no wishes; use another ledger, or protocol='claims'"
                )
            self._partitions = self._make(group)
        return self._partitions

    def _append(self, partition: int, kind: Callable[..., InductionRecord], **fields: Any) -> None:
        """Appends a record as a member would write it; this sender owns nothing."""
        n = self._numbers[partition] = self._numbers.get(partition, 0) + 1
        at = self._host.wall_us() // 1000
        record = kind(v=1, g=self.group, m=self._id, n=n, b=0, s=NOTHING_DUE, at=at, **fields)
        self._log.append(encode(record), partition)


def has_group(log: Log, group: str) -> bool:
    """Whether partition 0 has records of this claims group. Looks backwards from the end: a group that lives beats."""
    start, end = log.start(0), log.end(0)
    while end > start:
        low = max(start, end - NAMES * 30)
        if newest(log.read(low, 0, end - low), group) is False:
            return True
        end = low
    return False
