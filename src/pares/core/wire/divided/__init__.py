"""Partitions on which several consumers work: slots of ranges (C11), slots of keys (C12)."""
