"""A member in a process of its own that acts whenever it leads, and tells when it looked.

    python allcall_player.py URL NAME RANK SETTINGS      (of pares.AllCall, as JSON)

Lines out: `act TOKEN NS`, NS being the stopwatch before it asked whether it leads; all processes of a host share it. The end of
the input ends it gracefully.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import pares
from pares.runtime.clock import stopwatch

PAUSE = 0.01


def main() -> None:
    url, name, rank, settings = sys.argv[1:5]
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    own = pares.AllCall(**json.loads(settings))
    with pares.Member(url, group="g", roles=["x"], name=name, rank=int(rank), protocol=own) as me:
        while not over.is_set():
            asked = stopwatch()
            term = me.term("x")
            if term:
                print("act", term.token, asked, flush=True)
            time.sleep(PAUSE)


if __name__ == "__main__":
    main()
