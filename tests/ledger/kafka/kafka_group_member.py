"""A member of a consumer group in a process of its own; prints what it is told, a line each.

python kafka_group_member.py URL GROUP PARTITIONS SETTINGS
"""

import json
import sys
from collections.abc import Callable, Sequence

import pares.ledger
from pares.core.errors import LedgerUnavailable
from pares.ledger.kafka.log import KafkaLedger


def told(what: str) -> Callable[[Sequence[int]], None]:
    return lambda numbers: print(json.dumps([what, sorted(numbers)]), flush=True)


def main() -> None:
    url, group, partitions, settings = sys.argv[1:]
    ledger = pares.ledger.open(url, partitions=int(partitions), options=json.loads(settings))
    assert isinstance(ledger, KafkaLedger)
    membership = ledger.join(group, int(partitions), told("assigned"), told("revoked"), told("lost"))
    while True:
        try:
            membership.poll(1.0)
        except LedgerUnavailable:
            continue  # its connections broke while it stood still


if __name__ == "__main__":
    main()
