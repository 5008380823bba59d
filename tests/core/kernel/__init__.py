"""The claims kernel, driven step by step on a simulated log: what golden scenarios are played on."""
