"""A member with an exporter, for `test_alerts.py`: `python scraped_member.py URL NAME FLAG`.

It is ready while the file FLAG is there. It prints the port on which it can be scraped, then obeys a line of standard input
each: `step_down`, or anything else to close.
"""

from __future__ import annotations

import sys
from pathlib import Path

from prometheus_client import REGISTRY, start_http_server

import pares

SESSION = 4.0
"""Above the bucket of 2.5 s that the alert on slow takeovers looks at: any takeover by silence is a slow one."""


def main(url: str, name: str, flag: str) -> None:
    ready = Path(flag)
    with pares.Member(url, group="shop", roles=["cron"], name=name, session=SESSION, ready=ready.exists) as me:
        pares.metrics.prometheus(me, REGISTRY)
        server, _ = start_http_server(0, "127.0.0.1")
        print(server.server_port, flush=True)
        for line in sys.stdin:
            if line.strip() != "step_down":
                break
            me.step_down("cron")


if __name__ == "__main__":
    main(*sys.argv[1:])
