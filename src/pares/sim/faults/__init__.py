"""What befalls simulated processes and their ledger: faults, users' actions, and intruders."""
