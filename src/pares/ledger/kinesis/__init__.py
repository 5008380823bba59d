"""Kinesis data streams as a ledger: a stream of one shard for each partition."""
