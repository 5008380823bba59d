"""python -m examples.beat: two hosts' wrappers, whose leader is killed three times."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from examples.beat.run import in_order, run


def main() -> int:
    """0: no beat sent anything after a later one had begun; 1: not so."""
    parser = argparse.ArgumentParser(prog="python -m examples.beat", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often who leads is killed")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="pares-beat-") as folder:
        found = run(Path(folder), rounds=rounds)
    for token in dict.fromkeys(token for _, token in found):
        times = [at for at, of in found if of == token]
        print(f"term {token}: {len(times)} messages in {times[-1] - times[0]:.1f} s")
    print("never two beats at once" if in_order(found) else "TWO BEATS AT ONCE")
    return int(not in_order(found))


if __name__ == "__main__":
    sys.exit(main())
