"""What `pares run` runs where it leads, and ends where it does not. It knows nothing of pares but its token."""

from __future__ import annotations

import os
import time

from examples.web import jobs

if __name__ == "__main__":
    token = int(os.environ["PARES_TOKEN"])
    while True:
        jobs.write(token)
        time.sleep(jobs.EVERY)
