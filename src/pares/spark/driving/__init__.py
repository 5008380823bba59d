"""Spark jobs that must not run twice: streaming queries that run while their process leads (guard.py), claimed work
(work.py) on ranges of topics (ranges.py) and parts of DataFrames (claims.py)."""
