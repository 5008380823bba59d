"""NATS JetStream as a ledger, and core NATS as a bus."""
