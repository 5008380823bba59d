"""The host in virtual time: whole processes, which run the code that ships, in a world that is simulated.

One OS thread plays everything. Each thread of a simulated process is a greenlet (`Task`); it runs until it calls something of
its host, and every such call is a place where the world may go on without it: other tasks run, time passes, a fault strikes.
A process may be killed, frozen, starved (one of its tasks comes back late) or be raised at, exactly there (`faults`).

Time is true time in nanoseconds, which no process sees (`scheduler`). A process has a stopwatch, whose rate may be wrong and
may change, and a wall clock, which is anybody's guess (`clocks`). Its locks, flags, queues and waits are those of `sync` and
`bells`; its ledgers and buses are handles on what all processes of the world share (`log`, `ledger`, `bus`), each through
a weather of its own; the locks that prove its death are the world's (`death`). `host` puts all that behind the seam of
`pares.runtime`.

The same seed gives the same history: nothing here depends on hashes, on `id()`, on real time or on the garbage collector,
which rests while a world is played.
"""
