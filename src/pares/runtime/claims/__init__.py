"""The claims protocol on a real ledger."""
