"""Redis as a ledger: a stream for each partition, and scripts that keep it in order."""
