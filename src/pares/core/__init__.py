"""The protocols as state machines: no clock, no thread, no I/O, no logging.

`records` says what is written, `world` what everybody knows, `fold` how the one follows from the other, `reader` where a
reader of a log may begin, `lease` how long a holder may believe, `placement` who should hold what, and `claims` puts them
together as the member's side of the protocol: ``effects = protocol.step(event, now)``. Everything that decides who may act
is in this package, and nothing in it knows which ledger carries the records.
"""
