"""The group of all commands, and how their errors become sentences and exit codes."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from earmark import __version__
from earmark.cli import INTERRUPTED, INTERRUPTED_CODE, is_debugging
from earmark.cli.commands import audit, backtest, demo, generate, match, merge, publish, save, stream, warm
from earmark.cli.signals import SIGNALLED, Stopped, signals_stop, stopped_by
from earmark.errors import EarmarkError
from earmark.progress import end_bars

WRONG = 2
OUR_FAULT = 70


class ReaderLeft(Exception):
    """The reader of our output has closed the pipe. (For a broken pipe, click would exit with code 1.)"""


class Sentences(click.Group):
    """Commands whose errors are one sentence on stderr and an exit code, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them, not by name."""
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments, and answer `--help`."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise ReaderLeft from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except BrokenPipeError:
            raise ReaderLeft from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        _open_closed_streams()
        with signals_stop():
            code, message = self._outcome(*args, **kwargs)
        if message is not None:
            with contextlib.suppress(OSError):
                end_bars()
                click.echo("earmark: " + message.replace("\n", " "), err=True)
        sys.exit(code)

    def _outcome(self, *args: Any, **kwargs: Any) -> tuple[int, str | None]:
        """Run a command; return the exit code, and the sentence if something went wrong."""
        try:
            code = super().main(*args, **kwargs)
            return (code if isinstance(code, int) else 0), None
        except click.ClickException as problem:
            return WRONG, _usage(problem)
        except EarmarkError as problem:
            return WRONG, str(problem)
        except ReaderLeft:
            _drop_stdout()
            return 0, None
        except OSError as problem:
            _drop_stdout()
            where = "" if problem.filename is None else f": {os.fsdecode(problem.filename)!r}"
            return WRONG, f"the run failed: {problem.strerror or problem}{where}"
        except MemoryError:
            return WRONG, "not enough memory"
        except Stopped as stop:
            return stop.code, INTERRUPTED
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED_CODE, INTERRUPTED
        except Exception as problem:
            # A signal may reach us as something else, such as a module that could not be imported.
            number = stopped_by()
            return (OUR_FAULT, _fault(problem)) if number is None else (SIGNALLED + number, INTERRUPTED)


def _usage(problem: click.ClickException) -> str:
    """Return the message of click, on one line, and where to read more."""
    message = " ".join(problem.format_message().split())
    if not isinstance(problem, click.UsageError) or problem.ctx is None:
        return message
    return f"{message.removesuffix('.')} (see: {problem.ctx.command_path} --help)"


def _fault(problem: Exception) -> str:
    """Return an unexpected exception on one line; with EARMARK_DEBUG=1, print its traceback first."""
    if is_debugging():
        traceback.print_exception(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    what = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
    return f"a bug in earmark, not in your input: {what}{where}; EARMARK_DEBUG=1 shows a traceback"


def _open_closed_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr (`>&-`): the next file would take its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good


def _drop_stdout() -> None:
    """Drop what stdout still buffers, so that nothing fails at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 explain found no match, 2 wrong input (one sentence on stderr), 70 a bug in earmark, "
    "130 interrupted.",
)
@click.version_option(__version__, prog_name="earmark", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Match events against standing subscriptions: all that match, or the k best.

    Subscriptions are SQL conditions, events are rows. Files are Parquet (.parquet), CSV (.csv, .tsv) or JSON
    lines (.jsonl), in and out; text may be compressed (.csv.gz, .jsonl.zst), and - is standard input.

    \b
    A first look:     earmark demo
    Some data:        earmark generate w2 data
    All matches:      earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet
    The three best:   earmark top-k data/subscriptions.parquet data/events.parquet -k 3
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (
    *(demo.demo, match.match, match.top_k, match.explain, save.save, audit.audit, backtest.backtest),
    *(merge.merge, generate.generate, publish.publish, stream.stream, warm.warm),
):
    main.add_command(command)
