"""``python -m syncline``."""

from syncline.cli import main

if __name__ == "__main__":
    main()
