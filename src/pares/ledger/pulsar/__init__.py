"""Pulsar topics as a ledger."""
