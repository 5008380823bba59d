"""Kafka as a ledger."""
