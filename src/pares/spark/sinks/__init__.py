"""Sinks behind a fence: a batch is staged where nobody sees it, and published in one step with the check of its token.

extents.py says what a batch covers and what may follow what, base.py what every sink promises; each sink has a file of its own.
"""
