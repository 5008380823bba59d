"""What must stay as it is while the house is rebuilt: recorded beside this file, and compared at every step.

    python -m tests.oracles              compares, and prints what differs
    python -m tests.oracles --record     records anew (or: --record NAME); what is reviewed is the diff
    ... --play                           either of them, with all mutants played from seed 0 on (minutes)

| record | what it holds |
|---|---|
| surface.txt, surface_spark.txt | public names: signatures, members, bases of classes |
| commands.txt | options of all commands, their exit codes, the shapes of what they say with `--json` |
| mutants.txt | every rule that can be broken on purpose, and the first seed that notices |
| goldens.txt | the golden scripts of tests/core, which are compared by text there |
| wire.txt | the bytes of records of every kind and version, of a log, and of its snapshot |
"""
