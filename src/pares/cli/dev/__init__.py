"""`pares dev`: real servers on this machine, for trying and testing."""
