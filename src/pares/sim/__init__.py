"""The simulation: real protocol code, a simulated ledger, virtual time, and faults that a seed decides (docs/proof.md).

`engine` has time and clocks, `log` the ledger, `wire` what lies between a process and the log, `process` drives the kernel as
the real loop does, `scene` puts them together under the eyes of a judge, `checkers` hold the promises. `knobs` draws from a
seed what will happen, `play` plays it (`storm`, `user_actions` and `intruders` do the damage), `runs` plays many. `mutants`
breaks one rule at a time, to see that it would be noticed. What users get of it is `pares.testing`.
"""
