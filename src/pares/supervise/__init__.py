"""`pares run`: a command that runs only while its member leads."""
