"""The report: its frame, style and script, and what is drawn on it."""
