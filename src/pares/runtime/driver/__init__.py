"""What drives a member: one thread, and what that thread shares with those of the user."""
