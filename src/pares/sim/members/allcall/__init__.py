"""Real members that run ALLCALL, on a bus in virtual time.

Promised is not one leader, but one on every side, and one soon after sides meet: `promises` has it all, `bounds` says by when,
and `mutants` has the rules that are broken to see that it is noticed.
"""
