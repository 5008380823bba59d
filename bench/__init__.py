"""Measurements of pares: distributions and ratios, each taken within one run on one machine."""
