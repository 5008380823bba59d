"""Consumers: members of a group of claims whose roles are partitions (docs/design.md, C1 to C8)."""
