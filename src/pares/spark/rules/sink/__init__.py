"""The rules of the sink: what arrived there, held against the log. Each is a view (`NAME.sql`) with its oracle in `walk`.

Rule: a sink behind a fence takes, for each seat, tokens that never fall, *in the order in which the sink took the writes*.
That order is the sink's own (`ord`), not the order of the writers' clocks: a zombie wakes up with the time of its reading
already in hand, and by that time its late write would seem to be in its place.

A row's `seq` numbers the writes of one `role` and `key` without holes: a number that is there twice is a duplicate, one that
is skipped is missing. What was lost before the first or after the last row can't be seen from the rows.
"""
