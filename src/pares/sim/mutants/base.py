"""The names of `pares.sim.mutant`, for simulations that go soon."""

from pares.sim.mutant import Mutant, Patch, applied

__all__ = ["Mutant", "Patch", "applied"]
