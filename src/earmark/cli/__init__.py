"""The command line: every command is a call or two of the API.

Exit codes: 0 done; 1 `explain` of a subscription that does not match; 2 wrong input or usage, told in one sentence on
stderr; 130 interrupted. Results go to stdout or to a file, everything else to stderr.
"""

from __future__ import annotations

import sys
from typing import Any

import click

from earmark import __version__
from earmark.errors import EarmarkError

INTERRUPTED = 130


class Sentences(click.Group):
    """Our errors are one sentence and exit code 2, never a traceback; an interruption is exit code 130."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        try:
            code = super().main(*args, **kwargs)
        except (EarmarkError, click.ClickException) as problem:
            message = problem.format_message() if isinstance(problem, click.ClickException) else str(problem)
            click.echo(f"earmark: {message}", err=True)
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            click.echo("earmark: interrupted; nothing was left half-written", err=True)
            sys.exit(INTERRUPTED)
        except BrokenPipeError:
            sys.stderr.close()  # the reader of our output went away; nothing to tell anyone
            sys.exit(0)
        sys.exit(code if isinstance(code, int) else 0)


@click.group(cls=Sentences, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="earmark")
def main() -> None:
    """Match events against standing subscriptions: all that match, or the k best.

    Files are Parquet, CSV or JSON lines, by their names. Try `earmark demo` first.
    """


from earmark.cli.demo import demo  # noqa: E402 - commands hang on the group above
from earmark.cli.generate import generate  # noqa: E402
from earmark.cli.match import explain, match, top_k  # noqa: E402

for command in (demo, match, top_k, explain, generate):
    main.add_command(command)
