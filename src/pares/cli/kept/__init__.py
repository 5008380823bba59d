"""Commands that look at what is kept of logs."""
