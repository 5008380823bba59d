"""NELI, Fast NELI and NELE as they ship, in simulated worlds: `pares.sim.members` for groups that share out partitions.

The partitions are shared out in both ways that there are: by claims, in the log itself, or by a broker's group
(`broker`), of which not a word need be true.
"""
