"""INT and TERM reach a command whatever its main thread does just then."""

from __future__ import annotations

import signal
import subprocess
import sys

COMMAND = """
import signal
import threading
from pares.cli.common.signals import hearing_the_end

signal.signal(signal.SIGTERM, signal.SIG_IGN)  # for what is sent when all has been heard
told = threading.Event()
counts = []
def stop(count):
    counts.append(count)
    told.set()
with hearing_the_end(stop) as came:
    print("up", flush=True)
    while len(counts) < 2000:
        told.wait(0.00001)
        told.clear()
        print(len(counts), flush=True)
assert counts == list(range(1, len(counts) + 1)), "each is counted, in order"
print("over", came[0])
"""


def test_a_signal_at_any_step_of_the_main_thread_is_heard() -> None:
    command = [sys.executable, "-c", COMMAND]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("over"):
                    assert line.split()[1] == str(int(signal.SIGTERM))
                    break
                process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
