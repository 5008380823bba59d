"""Users' code under leadership: barriers, work that runs only while a member leads, and what watches it."""
