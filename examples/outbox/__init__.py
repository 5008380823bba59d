"""An outbox: orders and events in PostgreSQL, and pollers that publish each shard's events in order, once.

    python -m examples.outbox

A process that places an order writes the event that tells of it in the same transaction, into the table `outbox`. Pollers carry
events on to where others read them: here the table `topic` of another database. Of several pollers one works on each shard, for
two would mix up its events. A poller that comes to a shard looks up how far its events have come, and goes on from there.

That is right only if the poller before it writes no more. It may just have been frozen, with a batch in its hands, for
longer than any lock lasts. `locks.py` has several ways to say whose shard it is; `run.py` kills and freezes pollers at random
moments under each; `audit.py` counts what came of it.
"""
