"""Topics: named logs of users' records in a ledger, with a key for each record."""
