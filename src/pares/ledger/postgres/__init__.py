"""PostgreSQL as a ledger: two tables, and NOTIFY."""
