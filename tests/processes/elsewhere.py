"""Platforms that have less than Linux, as a process sees them: what they lack is taken away before anything is imported.

`make_platform(folder, "macos")` is what to put into PYTHONPATH. Not shown by that: what another kernel does differently in what
it does have.
"""

from __future__ import annotations

from pathlib import Path

import pares

SITE = """
import builtins, errno, fcntl, io, os, select, signal, stat, sys, sysconfig, time

MACOS = {macos}
GONE = [(os, "pidfd_open"), (signal, "pidfd_send_signal"), (select, "epoll"), (os, "eventfd"), (os, "memfd_create")]
for module, name in GONE:
    if hasattr(module, name):
        delattr(module, name)
if MACOS:
    # A stopwatch that runs on in sleep has that name there; and all processes of a test must look at the same one.
    time.CLOCK_MONOTONIC = time.CLOCK_BOOTTIME
    del time.CLOCK_BOOTTIME
    sysconfig.get_config_vars()  # it is read from a file that bears the platform's name
    sys.platform = "darwin"

    def without_proc(real):
        def call(path, *args, **kwargs):
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
                raise FileNotFoundError(errno.ENOENT, "No such file or directory", os.fspath(path))
            return real(path, *args, **kwargs)
        return call

    builtins.open = io.open = without_proc(io.open)
    os.open, os.stat, os.lstat, os.scandir, os.listdir = map(
        without_proc, (os.open, os.stat, os.lstat, os.scandir, os.listdir)
    )
    flock = fcntl.flock

    def flock_of_files(descriptor, operation):
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSUP, "Operation not supported")
        return flock(descriptor, operation)

    fcntl.flock = flock_of_files
"""


def make_platform(folder: Path, name: str) -> Path:
    """`macos`, or `old linux` (before 5.3: no pidfd; and no epoll or eventfd either)."""
    place = folder / name.replace(" ", "-")
    place.mkdir()
    (place / "sitecustomize.py").write_text(SITE.replace("{macos}", str(name == "macos")))
    (place / "pares").symlink_to(Path(pares.__file__).parent)
    return place
