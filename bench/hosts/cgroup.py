"""A control group with little memory, in which the kernel kills what wants more: an OOM kill, and of nobody else."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pares.core.errors import CapabilityError

_ROOT: Final = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def little_memory(name: str) -> Iterator[Path]:
    """A new group, and nothing in it. Raises `CapabilityError` where none can be made."""
    root = _ROOT / "memory" if (_ROOT / "memory").is_dir() else _ROOT
    folder = root / f"pares-bench-{os.getpid()}-{name}"
    try:
        folder.mkdir()
    except OSError as error:
        raise CapabilityError(f"no control group can be made in {root}: {error.strerror}; run as root") from error
    try:
        if not (folder / _limit(folder)).exists():
            raise CapabilityError(f"{root} does not limit memory")
        yield folder
    finally:
        with contextlib.suppress(OSError):  # its process may be on its way out
            folder.rmdir()


def put(folder: Path, pid: int, more: int) -> None:
    """The process may have `more` bytes beside those that it has now."""
    (folder / "cgroup.procs").write_text(str(pid))
    fields = Path(f"/proc/{pid}/statm").read_text().split()
    (folder / _limit(folder)).write_text(str(int(fields[1]) * os.sysconf("SC_PAGE_SIZE") + more))


def _limit(folder: Path) -> str:
    return "memory.max" if (folder / "memory.max").exists() else "memory.limit_in_bytes"
