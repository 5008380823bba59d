"""Every ledger under faults of its one server and of its members: `python -m chaos.ledgers`."""
