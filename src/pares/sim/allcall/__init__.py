"""ALLCALL simulated: a bus that delays, loses, doubles, cuts and splits, members on it, and promises that are measured."""
