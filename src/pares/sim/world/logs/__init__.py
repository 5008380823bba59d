"""The simulated log, its handles, and the ways between them."""
