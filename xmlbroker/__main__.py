"""`python -m xmlbroker` is the command line."""

from xmlbroker.cli import main

if __name__ == "__main__":
    main()
