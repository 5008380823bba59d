"""Commands that work on topics of records."""
