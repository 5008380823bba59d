"""python -m examples.shop_django: runs the command three times over, kills who leads, and looks at the letters."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from examples.shop_django.run import run


def main() -> int:
    """0: letters are in the order of their terms; 1: not so."""
    with tempfile.TemporaryDirectory(prefix="pares-shop-") as folder:
        tokens = run(Path(folder), rounds=3)
    print(f"{len(tokens)} letters in {len(set(tokens))} terms")
    return int(tokens != sorted(tokens))


if __name__ == "__main__":
    sys.exit(main())
