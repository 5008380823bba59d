"""Several hosts on one machine: each has a network of its own and a lock folder of its own, and a witness or none (R22)."""
