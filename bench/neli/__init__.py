"""NELI and Fast NELI on a real Kafka."""
