"""What came of a run: judged, audited, and reported."""
