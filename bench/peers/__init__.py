"""pares beside what one would pick instead: the same harness, the same machine, real servers, one run."""
