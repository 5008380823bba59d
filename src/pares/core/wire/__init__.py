"""What stands in the log, and what everybody knows who has read it up to some place."""
