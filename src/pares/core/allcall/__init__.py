"""ALLCALL: a leader on every side of a split, by broadcast alone (docs/allcall.md)."""
