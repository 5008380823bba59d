"""The list of golden scripts. They are compared by text where they stand (tests/core): here it is seen that none gets lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

CORE: Final = Path(__file__).parents[1] / "core"
FOLDERS: Final = {
    "claims, by test_core_golden.py": CORE / "golden",
    "the NELI family, by test_core_neli_golden.py": CORE / "golden_neli",
}


def _script(file: Path) -> str:
    lines = file.read_text().splitlines()
    steps = sum(line.startswith(">") for line in lines)
    broken = [line.removeprefix("# mutant: ") for line in lines if line.startswith("# mutant: ")]
    return f"  {file.stem}: {steps} steps" + "".join(f"; comes out otherwise with {names}" for names in broken)


def _lines() -> Iterator[str]:
    yield "# Golden scripts: what is compared by text, and the mutants with which a script must come out otherwise"
    for what, folder in FOLDERS.items():
        files = sorted(folder.glob("*"))
        yield f"{what}: {len(files)}"
        yield from map(_script, files)


def goldens() -> str:
    return "\n".join(_lines()) + "\n"
