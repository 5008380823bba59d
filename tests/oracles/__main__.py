"""`python -m tests.oracles`: compares with the records; with `--record`, writes them anew."""

from __future__ import annotations

import argparse
import sys

from .proof import write
from .records import RECORDS, difference, record


def main() -> int:
    """0 if nothing differs, or all was recorded; 1 if something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracles", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the records anew, for review of the diff")
    parser.add_argument("--play", action="store_true", help="play all mutants from seed 0 on: takes minutes")
    parser.add_argument("names", nargs="*", metavar="RECORD", help=f"only these of {', '.join(RECORDS)}")
    given = parser.parse_args()
    if unknown := set(given.names) - RECORDS.keys():
        parser.error(f"no record {', '.join(sorted(unknown))}; there are {', '.join(RECORDS)}")
    differs = False
    for name in given.names or RECORDS:
        if given.record:
            print(f"{name}: {'written anew' if record(name, play=given.play) else 'as it was'}")
            if name == "mutants.txt":
                write()
        elif said := difference(name, play=given.play):
            differs = True
            print(said)
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
