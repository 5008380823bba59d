"""The order of the house: what its files may not do, and which of them still do it.

    python -m tests.house              says what differs from the list
    python -m tests.house --record     writes the list anew; refuses to, where a list would grow

`allowed.txt` is the list: exact, and it may only become shorter. What is new there must be mended; what is no longer found must
be taken out, so that it does not come back.

| check | what is not to be |
|---|---|
| circles of imports | files that import each other, at once or around corners (of a package: its `__init__.py`) |
| circles with what type checkers import | the same, with imports under `if TYPE_CHECKING` |
| circles with what functions import | the same, with imports inside functions |
| long files | of more than 450 lines |
| full folders | with more than 15 files, of whatever sort |
| files named after their folder | `kafka/kafka_tail.py` |
| casts to a loop | `cast("Loop", ...)`: what is no loop is called one |
| capabilities asked for by name | `getattr(ledger, "epoch", None)`: declare it |
| protocols told apart by name | `protocol == "neli"` outside the registry |
| ledgers told apart by scheme | `scheme == "sqlite"` outside the registry and the ledgers' own files |
| tests that reach deep | `x._a.b.c`: a private attribute, and two or more attributes behind it |
"""
