"""The command line: every command is a call or two of the API.

Exit codes: 0 done; 1 `explain` of a subscription that does not match; 2 wrong input or usage, told in one sentence on
stderr; 70 a fault of earmark's own; 130 interrupted (143 terminated, 129 hung up). Results go to stdout or to a file,
everything else to stderr.

What a command needs is imported when it runs: `--help` and a mistyped option answer at once.
"""

from __future__ import annotations

import sys

INTERRUPTED = "interrupted; nothing was left half-written"
INTERRUPTED_CODE = 130


def main() -> None:
    """What the executable runs. From here on Ctrl-C is answered with a sentence, also while modules are imported."""
    try:
        from earmark.cli.app import main as app
    except KeyboardInterrupt:
        sys.stderr.write(f"earmark: {INTERRUPTED}\n")
        sys.exit(INTERRUPTED_CODE)
    app()
