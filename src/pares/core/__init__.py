"""The protocols as state machines: no clock, no thread, no I/O, no logging.

`wire` has what stands in a log, the world that follows from it, and where a reader may begin; `lease` how long a holder may
believe; `claims`, `neli` and `allcall` a member's side of each protocol: ``effects = protocol.step(event, now)``, with the
events and effects of `events`. Everything that decides which member may act is in this package, and nothing in it knows which
ledger carries the records. The rules, R1 and so on, stand in docs/design.md.
"""
