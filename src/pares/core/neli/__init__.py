"""NELI, NELE and Fast NELI: leadership is induced from partitions that a group shares out (docs/neli.md)."""
