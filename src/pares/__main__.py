"""`python -m pares`: the same as the command `pares`."""

from pares.cli import main

if __name__ == "__main__":
    main()
