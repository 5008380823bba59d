"""Delivery, proven: workers on a topic that are killed, frozen and cut off, and what they did held against the promises.

    python -m chaos.delivery [--ledger kafka|file] [--seconds S] [--faults N] [--json]

Each worker writes down what it was given and what it did, as it does it, in a file that outlives it. The judge holds these
journals against the topic, and against the group's log.
"""
