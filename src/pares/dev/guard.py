"""Becomes a command that the kernel kills when its parent dies. Run by path, with neither `site` nor pares:

    python -I -S guard.py PARENT[:UID:GID] CMD ...

A process can't ask that for another one, and Python code between fork and exec in a program with threads may hang for ever: so
this small program asks for itself, and the wish survives its turning into the command. (Not if the command is set-user-id.)
With UID and GID it becomes that user first, for servers that refuse to run as root: a change of user would undo the wish.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, *user = map(int, sys.argv[1].split(":"))
    if user:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() == parent:  # else it died before we could ask
        os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
