"""NELI and Fast NELI simulated: a log for each partition, a group that shares partitions out, and faults in between."""
