"""The rules of the audit: each a SQL view in a file of its own (`queries/NAME.sql`), with an oracle in plain Python that says
the same slowly.

A rule is a question to the tables of an audit; its answer is one row a violation, with its evidence. Both forms of a rule get
the same tables, so whatever Spark finds can be found without it, and each holds the other to its word.
"""
