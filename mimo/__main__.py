"""`python -m mimo` in a checkout; installed, use the `mimo` (or `mimo-rl`) script."""

from commands.cli import main

if __name__ == "__main__":
    main()
