"""Handlers that write into a database, in one transaction with which records that was of."""
