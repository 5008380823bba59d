"""A member that runs ALLCALL in a process of its own, for the benchmarks; it speaks as `bench.part` says.

    python -m bench.allcall.worker URL NAME RANK HEARTBEAT LEASE SKEW ORDER WHEN_ISOLATED

Lines out: `ready - NS`, `lead x NS TOKEN`, `lost x NS`, `handing x NS`. Lines in: `hand` yields the role.
"""

from __future__ import annotations

import sys
import threading
import time

import pares
from bench.part import play, tell
from pares.runtime.clock import stopwatch


def main() -> None:
    url, name, rank, heartbeat, lease, skew, order, alone = sys.argv[1:9]
    member = pares.Member(
        url,
        group="bench",
        roles=["x"],
        name=name,
        rank=int(rank),
        protocol=pares.AllCall(
            heartbeat=float(heartbeat),
            lease=float(lease),
            skew=float(skew),
            order="rank" if order == "rank" else "lease",
            when_isolated="step_down" if alone == "step_down" else "lead",
        ),
    )

    def heard() -> None:
        for event in member.events():
            now = stopwatch()
            if isinstance(event, pares.Acquired):
                tell("lead", event.role, now, event.token)
            elif isinstance(event, pares.Revoked | pares.Fenced):
                tell("lost", event.role, now)

    def ready() -> None:
        while member.state == "joining":
            time.sleep(0.01)
        tell("ready", "-", stopwatch())

    def hand() -> None:
        tell("handing", "x", stopwatch())
        member.hand_over("x")

    # It leads a lease and more after it was made: nothing is missed.
    threading.Thread(target=heard, daemon=True).start()
    threading.Thread(target=ready, daemon=True).start()
    play({"holds()": lambda: member.holds("x")}, {"hand": hand})
    member.close()


if __name__ == "__main__":
    main()
