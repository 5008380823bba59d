"""Consumption: partitions of topics as seats of claims, positions as marks (docs/design.md, C1 to C11)."""
