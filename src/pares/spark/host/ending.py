"""How the JVM of a session that was started here ends."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import Popen
from typing import Any, Final

_HERE: Final = re.compile(r"local(\[.*)?")


def may_be_killed(process: Popen[Any], master: str) -> bool:
    """Whether nothing is lost if this JVM does not tidy up first: it works alone, without executors elsewhere and without
    Python workers, which it would have to end. Only where that can be seen: on Linux."""
    if _HERE.fullmatch(master) is None:
        return False
    try:
        told = [path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/children")]
    except OSError:
        return False
    return bool(told) and not any(told)
