"""The member that should hold each seat (R13), and how little of that has to be found out again (R23)."""
