"""NELI, NELE and Fast NELI on real ledgers."""
