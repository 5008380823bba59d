"""python -m examples.shop_django: starts the command on three hosts, kills who leads, and looks at the letters."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from examples.shop_django.run import run


def main() -> int:
    """0: letters are in the order of their terms; 1: not so."""
    parser = argparse.ArgumentParser(prog="python -m examples.shop_django", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often who leads is killed")
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="pares-shop-") as folder:
        tokens = run(Path(folder), rounds=rounds)
    ordered = tokens == sorted(tokens)
    said = "no term wrote after a later one" if ordered else "A TERM WROTE AFTER A LATER ONE"
    print(f"{len(tokens)} letters in {len(set(tokens))} terms: {said}")
    return int(not ordered)


if __name__ == "__main__":
    sys.exit(main())
