"""The audit of a log that goes on: each violation is found soon after the record that shows it, in bounded memory.

The rules are those of `rules`, and no others: an evaluation asks their oracles, of what is kept. Each rule says in the registry
which facts it needs and how far back (`Reach`), and what is kept follows from that:

    by seat     terms that are open, those that ended within the window, and one led term before them: `terms`
    by record   what is decided by a record and what stood before it, once: `records`
    by end      what the fold says of the log's end as it is now

What a whole audit of the same records says is what was told here, but for what `judge` names.
"""
