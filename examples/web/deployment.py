"""python -m examples.web.deployment N MODULE [ARGUMENT ...]: keeps N processes of a module running, and starts another for each
that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys


def main() -> None:
    running: dict[int, subprocess.Popen[bytes]] = {}
    number = 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        while True:
            while len(running) < int(sys.argv[1]):
                number += 1
                environment = {**os.environ, "WEB_WORKER": str(number)}
                started = subprocess.Popen([sys.executable, "-m", *sys.argv[2:]], env=environment)
                running[started.pid] = started
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            if ended is not None:
                running.pop(ended.si_pid).wait()
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()


if __name__ == "__main__":
    main()
