"""The demo: price feeds that several processes share, faults on a visible schedule, and an audit of all of it.

Everything in it is real: processes, signals, a ledger on disk, a table behind a fence. The conductor knows nothing that a
stranger could not know: what the screen shows is read from the ledger and from the table of quotes.
"""
