"""The embedded ledger: one SQLite file for all processes of one host."""
