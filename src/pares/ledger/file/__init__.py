"""The embedded ledger without a lock: a folder of files that are only ever appended to."""
