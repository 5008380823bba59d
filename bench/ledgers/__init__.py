"""The same measurements on each ledger."""
