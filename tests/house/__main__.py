"""`python -m tests.house`: what differs from the list of what is still allowed; with `--record`, writes it anew."""

from __future__ import annotations

import argparse
import difflib
import sys

from .checks import CHECKS
from .lists import FILE, grown, read, written


def main() -> int:
    """0 if nothing differs, or the list was written; 1 if something differs, or the list would become longer."""
    parser = argparse.ArgumentParser(prog="python -m tests.house", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the list anew, unless it would become longer")
    given = parser.parse_args()
    before = FILE.read_text()
    now = {check: find() for check, find in CHECKS.items()}
    if not given.record:
        lines = difflib.unified_diff(
            before.splitlines(), written(now).splitlines(), "allowed", "found", lineterm="", n=0
        )
        said = "\n".join(lines)
        print(said or "as recorded")
        return 1 if said else 0
    if worse := grown(read(before), now):
        print("not written: mend what is new.", *worse, sep="\n")
        return 1
    FILE.write_text(written(now))
    return 0


if __name__ == "__main__":
    sys.exit(main())
