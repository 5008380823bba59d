"""Real members in a simulated world: `pares.Member` as it ships, on hosts in virtual time (`pares.sim.world`).

A seed draws a plan (`plan`): members with their clocks, weathers and users' programs. A storm of faults strikes while it lasts
(`storm`); then everything must come right. Beliefs are looked at from outside, in true time, whenever a task has run
(`sight`); every record that lands is folded by a judge (`judge`); what must hold is in `promises`, one file a promise.
`mutants` are defects planted in the code that ships, each of which some seed must find; `exhaust` strikes one short history at
every call of its host.
"""
