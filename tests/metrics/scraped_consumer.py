"""A consumer with an exporter, for `test_alerts.py`: `python scraped_consumer.py URL`.

It prints the port on which it can be scraped, and works on a topic to which it writes itself, until it is ended.
"""

from __future__ import annotations

import sys
from contextlib import closing

from prometheus_client import REGISTRY, start_http_server

import pares
from pares.ledger import open_topic

SESSION = 4.0


def main(url: str) -> None:
    with (
        closing(pares.open(url)) as ledger,
        closing(open_topic(ledger, "orders", 2)) as topic,
        pares.Consumer(url, group="billing", topics="orders", name="c", session=SESSION) as consumer,
    ):
        pares.metrics.prometheus(consumer, REGISTRY)
        server, _ = start_http_server(0, "127.0.0.1")
        print(server.server_port, flush=True)
        while True:
            topic.append(b"two apples", partition=0)
            for batch in consumer.batches(1.0):
                batch.done()


if __name__ == "__main__":
    main(*sys.argv[1:])
