"""Steering a group of the claims protocol, by a member that is eligible for nothing: it asks, and holders act (R13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pares.core.consume.names import Partition
from pares.core.errors import ConfigError
from pares.core.events import Ask, RewindTo
from pares.core.wire.divided.keys import parts
from pares.core.wire.divided.ranges import may_rewind, position
from pares.core.wire.divided.siblings import part_of
from pares.core.wire.records import MAX_INT, Seat
from pares.core.wire.states import SeatState
from pares.core.wire.world import World
from pares.ledger import Ledger
from pares.runtime.config.numbers import whole
from pares.runtime.config.settings import Spread
from pares.runtime.death.incarnation import default_name
from pares.runtime.driver.kit import Steers, seat_to_move
from pares.runtime.driver.view import WorldView
from pares.runtime.host import Host
from pares.runtime.member import Member
from pares.runtime.views import Rewound


def steer(ledger: Ledger, group: str, name: str | None, host: Host, again: Callable[[str], Steers]) -> ClaimsAdmin:
    """See `driver.kit.Steerer`. It takes any group: one that the log has nothing of, too."""
    return ClaimsAdmin(Member(ledger, group=group, roles=(), name=name or f"admin-{default_name(host)}"))


class ClaimsAdmin:
    """See `driver.kit.Steers`."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._requests = member._requests  # pyright: ignore[reportPrivateUsage]

    def _live(self) -> Member:
        """Waits until the administrator's join has counted, so that checks look at a whole world."""
        self._requests.perform(Ask())
        return self._member

    def roles(self) -> dict[str, int]:
        return self._live().roles()

    def add_role(self, name: str, seats: int, weight: float, spread: Spread) -> None:
        self._live().add_role(name, seats, weight, spread)

    def remove_role(self, name: str) -> None:
        self._live().remove_role(name)

    def pause(self, role: str | None, *, seconds: float) -> None:
        self._live().pause(role, seconds=seconds)

    def resume(self, role: str | None) -> None:
        self._live().resume(role)

    def hand_over(self, role: str, to: str | None, seat: int | None) -> None:
        member = self._live()
        self._requests.check_known(role)
        seat = seat_to_move(role, seat, [holder.seat for holder in member.leaders(role)])
        self._requests.perform(Ask(seat=(role, seat), to=None if to is None else self._requests.resolve(to)))

    def drain(self, member: str) -> None:
        self._live()
        self._requests.perform(Ask(drain=self._requests.resolve(member)))

    def positions(self) -> dict[tuple[str, int], int]:
        world = self._world()
        return dict(sorted({_key(seat): _position(world, seat) for seat in self._seats(world)}.items()))

    def _seats(self, world: World) -> list[SeatState]:
        """All seats but slots (C11, C12), those held last at the end. A topic that was made anew has seats of the same names
        and numbers (C1): so a later one of these is that of the topic as it is now."""
        found = (seat for seat in world.seats.values() if part_of(seat.role) is None)
        return sorted(found, key=lambda seat: max((seat.token, *(part.token for part in parts(world, seat.role)))))

    def rewind(self, marks: Mapping[tuple[str, int], int]) -> list[Rewound]:
        world = self._world()
        known = {_key(seat): seat for seat in self._seats(world)}
        moves: dict[Seat, int] = {}
        tokens: dict[Seat, int] = {}
        for key, mark in marks.items():
            whole(f"the mark of {key}", mark, 0, MAX_INT - 1)
            seat = world.seats.get(key) or known.get(key)
            if seat is None:
                raise ConfigError(f"group {self._member.group!r} has no seat {key}")
            if seat.holder is not None or not may_rewind(world, seat):
                raise ConfigError(f"the mark of {key} can't be moved: pause the role and wait until nobody holds it")
            moves[seat.seat] = mark
            tokens |= {each.seat: each.token for each in (seat, *parts(world, seat.role))}
        self._requests.perform(RewindTo(tuple((*seat, mark) for seat, mark in sorted(moves.items()))))
        self._check_moved(moves)
        world = self._world()
        seats = (world.seats[seat] for seat in sorted(moves) if seat in world.seats)
        return [_rewound(each, tokens) for seat in seats for each in (seat, *parts(world, seat.role))]

    def _check_moved(self, moves: Mapping[Seat, int]) -> None:
        """Raises `ConfigError` for marks that did not move, as the log shows (C5): the pause may have ended too early."""
        missed: list[Seat] = []
        for seat, mark in sorted(moves.items()):
            world = self._world()
            state = world.seats.get(seat)
            # A new holder may have moved the mark up by now, but never down.
            held = state is not None and any(each.holder is not None for each in (state, *parts(world, seat[0])))
            if state is not None and (state.mark < mark or (state.mark > mark and not held)):
                missed.append(seat)
        if missed:
            moved = sorted(set(moves) - set(missed))
            others = (
                f"; those of {moved} did: where a database is to be told of that, rewind them once more"
                if moved
                else ""
            )
            raise ConfigError(f"the marks of {missed} did not move: the pause ended before; pause for longer{others}")

    def _world(self) -> World:
        view = self._live()._view  # pyright: ignore[reportPrivateUsage]
        assert isinstance(view, WorldView)
        return view.world

    def close(self) -> None:
        self._member.close()


def _rewound(seat: SeatState, tokens: Mapping[Seat, int]) -> Rewound:
    """`tokens`: as they were before the rewind. A term that has begun since has another one: it is let through if it lasts. The
    token is read before the holder, because the driver's thread writes them in the other order. [a term that begins in between
    is taken for one that is over]"""
    token = seat.token
    over = token == tokens.get(seat.seat, 0) or seat.holder is None
    return Rewound(*seat.seat, token + 1 if over else token)


def _key(seat: SeatState) -> tuple[str, int]:
    """The seat's key for users: its role and index; for a consumer's seat its topic and partition."""
    partition = Partition.of(seat.role)
    return seat.seat if partition is None else (partition.topic, partition.number)


def _position(world: World, seat: SeatState) -> int:
    """The next offset to consume. What a consumer has taken is not given out again (C2); with ranges, the first that is not
    done."""
    return seat.mark if Partition.of(seat.role) is None else position(world, seat)
