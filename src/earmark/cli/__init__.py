"""The command line: every command is a call or two of the API.

    app.py         the group of commands; errors and signals become sentences and exit codes
    options.py     options that commands share, each worded once
    match.py, prepare.py, hygiene.py, generate.py, demo.py, broker.py, simulate.py    the commands, by kind
    without.py     what the demo compares earmark with: a loop, and SQLite
    search.py      events read, searched, named, counted, sampled: the work behind `match`, `top-k` and `backtest`
    files.py       subscriptions in, results out
    shown.py       subscriptions, changes and times as text, without control characters
    spark.py       the same on Spark: a session, subscriptions as a DataFrame, the search

Exit codes: 0 done; 1 `explain` of a subscription that does not match; 2 wrong input or usage, with one sentence on
stderr; 70 a bug in earmark; 130 interrupted (143 terminated, 129 hung up). Results go to stdout or to a file,
everything else to stderr.

What a command needs is imported when it runs, so that `--help` and a mistyped option answer at once.
"""

from __future__ import annotations

import os
import sys

INTERRUPTED = "interrupted; nothing was left half-written"
INTERRUPTED_CODE = 130


def main() -> None:
    """Run the command line; Ctrl-C is answered with a sentence even while modules are imported."""
    try:
        from earmark.cli.app import main as app
    except KeyboardInterrupt:
        sys.stderr.write(f"earmark: {INTERRUPTED}\n")
        sys.exit(INTERRUPTED_CODE)
    app()


def is_debugging() -> bool:
    """Return whether EARMARK_DEBUG asks for tracebacks and logs."""
    return os.environ.get("EARMARK_DEBUG", "0") not in ("", "0")
