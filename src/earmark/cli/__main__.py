"""`python -m earmark.cli`."""

from earmark.cli import main

main()
