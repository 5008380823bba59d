"""What a member does for the whole group: it says how often, and which of them does it; declares roles, writes snapshots, and
watches, buries and forgets others."""
