"""How well this member can lead, and how much of it: its round trips, whether it is ready, what it may claim (R18, R19)."""
