"""The group of all commands, and what becomes of whatever goes wrong in them."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import click

from earmark import __version__
from earmark.cli import INTERRUPTED, INTERRUPTED_CODE
from earmark.cli.signals import SIGNALLED, Stopped, signals_stop, stopped_by
from earmark.errors import EarmarkError
from earmark.progress import end_bars

WRONG = 2
OUR_FAULT = 70


class ReaderLeft(Exception):
    """Whoever read our output has read enough. (Of a broken pipe, click would make exit code 1.)"""


class Sentences(click.Group):
    """Whatever goes wrong is one sentence on stderr and an exit code, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which one meets them, not by name."""
        return list(self.commands)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the arguments; `--help` is answered here."""
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
        """The exit code, and the sentence if there is one to say."""
        try:
            code = super().main(*args, **kwargs)
            return (code if isinstance(code, int) else 0), None
        except click.ClickException as problem:
            return WRONG, _usage(problem)
        except EarmarkError as problem:
            return WRONG, str(problem)
        except ReaderLeft:
            _let_go_of_stdout()
            return 0, None
        except OSError as problem:
            _let_go_of_stdout()
            where = "" if problem.filename is None else f": {os.fsdecode(problem.filename)!r}"
            return WRONG, f"the run failed: {problem.strerror or problem}{where}"
        except MemoryError:
            return WRONG, "there is not enough memory for this"
        except Stopped as stop:
            return stop.code, INTERRUPTED
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED_CODE, INTERRUPTED
        except Exception as problem:
            # A signal may reach us as something else, such as a module that could not be imported.
            number = stopped_by()
            return (OUR_FAULT, _fault(problem)) if number is None else (SIGNALLED + number, INTERRUPTED)


def _usage(problem: click.ClickException) -> str:
    """What click has to say, on one line, and where to read more."""
    message = " ".join(problem.format_message().split())
    if not isinstance(problem, click.UsageError) or problem.ctx is None:
        return message
    return f"{message.removesuffix('.')} (see: {problem.ctx.command_path} --help)"


def _fault(problem: Exception) -> str:
    """An exception that nobody foresaw, on one line; with EARMARK_DEBUG=1 its traceback goes before."""
    if os.environ.get("EARMARK_DEBUG", "0") not in ("", "0"):
        traceback.print_exception(problem)
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    what = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
    return f"a fault of earmark's own, not of your input: {what}{where}; with EARMARK_DEBUG=1 it shows a traceback"


def _open_closed_streams() -> None:
    """Where the shell gave us no stdin, stdout or stderr (`>&-`), nothing: else the next file takes its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good


def _let_go_of_stdout() -> None:
    """Drop what stdout still holds, so that nothing complains at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 explain found no match, 2 wrong input (one sentence on stderr), 70 a fault of "
    "earmark's own, 130 interrupted.",
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


from earmark.cli.audit import audit  # noqa: E402 - commands hang on the group above
from earmark.cli.backtest import backtest  # noqa: E402
from earmark.cli.compact import compact  # noqa: E402
from earmark.cli.demo import demo  # noqa: E402
from earmark.cli.generate import generate  # noqa: E402
from earmark.cli.match import explain, match, top_k  # noqa: E402
from earmark.cli.publish import publish  # noqa: E402
from earmark.cli.save import save  # noqa: E402
from earmark.cli.stream import stream  # noqa: E402
from earmark.cli.warm import warm  # noqa: E402

for command in (demo, match, top_k, explain, save, audit, backtest, compact, generate, publish, stream, warm):
    main.add_command(command)
