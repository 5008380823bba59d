"""Programs that show pares at work, each run with one command: README.md lists them."""
