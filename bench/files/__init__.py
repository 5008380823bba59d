"""Members on the file ledger."""
