"""The end of a process: locks that prove it, the watch over others' locks, and an orderly leave (R7)."""
