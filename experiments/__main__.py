"""``python -m experiments PAPER [FIGURE...]``."""

from experiments.harness.command import main

if __name__ == "__main__":
    main()
