"""What must hold of the log of claims, seen from its records alone.

Each is told of every record that lands, as the judge folded it, and keeps beside the fold what that should have come to. None
of them knows how the kernel works.
"""
