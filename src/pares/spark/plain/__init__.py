"""The audit without Spark: every table and every rule in plain Python, for logs that are short enough.

It needs no Java. It says what Spark says, of each row; tests hold the two against each other.
"""
