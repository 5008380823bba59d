"""ALLCALL on real buses."""
