"""`python -m earmark`: the command line."""

from earmark.cli import main

if __name__ == "__main__":
    main()
