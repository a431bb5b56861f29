"""The group of all commands, and how their errors and signals become sentences and exit codes.

    signal ──► Stopped, in the main thread ──► `with` and `finally` undo what is half done ──► exit code 128 + n

Requests to end (Ctrl-C, SIGTERM, SIGHUP) are an exception, so that a run cleans up. Three cases need care:

* A second Ctrl-C would interrupt the cleaning: for a second after the first, signals are ignored.
* Python drops exceptions that are raised inside a destructor or a callback from C, and goes on: then Stopped is raised
  again a moment later.
* A library that is being imported turns it into an error of its own: `_stopped` says that a signal was the cause.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from earmark import __version__
from earmark.cli import INTERRUPTED, INTERRUPTED_CODE, is_debugging
from earmark.cli.book import backup, book, check, repair
from earmark.cli.broker import broker
from earmark.cli.demo import demo
from earmark.cli.generate import generate
from earmark.cli.hygiene import audit, merge
from earmark.cli.match import backtest, explain, match, stream, top_k
from earmark.cli.paper import paper
from earmark.cli.prepare import publish, save, warm
from earmark.cli.shown import printable
from earmark.cli.simulate import simulate
from earmark.errors import EarmarkError
from earmark.progress import end_bars

WRONG = 2
OUR_FAULT = 70
SIGNALLED = 128  # plus the number of the signal is the exit code that shells know
CLEANING = 1.0  # seconds that belong to the first signal
SOON = 0.01

# Numbers and times. Not the exceptions: they would keep the objects of the run alive until the interpreter exits.
_stopped: list[tuple[int, float]] = []


class Stopped(BaseException):
    """The signal of this number ended the run. Not a child of Exception, so that libraries do not catch it."""


class Sentences(click.Group):
    """Commands whose errors are one sentence on stderr and an exit code, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user meets them, not by name."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and write out its results while errors are still caught."""
        result = super().invoke(ctx)
        sys.stdout.flush()
        return result

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        _open_closed_streams()
        with _signals_stop():
            code, message = self._outcome(*args, **kwargs)
        if message is not None:
            with contextlib.suppress(OSError):
                end_bars()
                click.echo("earmark: " + printable(message.replace("\n", " ")), err=True)
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
        except SystemExit as leaving:  # click leaves with 1 where the reader of our output has closed the pipe
            _drop_stdout()
            return (leaving.code if isinstance(leaving.code, int) and leaving.code > 1 else 0), None
        except OSError as problem:
            _drop_stdout()
            where = "" if problem.filename is None else f": {os.fsdecode(problem.filename)!r}"
            return WRONG, f"the run failed: {problem.strerror or problem}{where}"
        except MemoryError:
            return WRONG, "not enough memory"
        except Stopped as stop:
            return SIGNALLED + stop.args[0], INTERRUPTED
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED_CODE, INTERRUPTED
        except Exception as problem:
            # A signal may reach us as something else, such as a module that could not be imported.
            return (SIGNALLED + _stopped[-1][0], INTERRUPTED) if _stopped else (OUR_FAULT, _fault(problem))


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


def _stop(number: int, frame: Any) -> None:
    if _stopped and time.monotonic() - _stopped[-1][1] < CLEANING:
        return
    _stopped.append((number, time.monotonic()))
    raise Stopped(number)


def _stop_again(number: int, frame: Any) -> None:
    raise Stopped(_stopped[-1][0])


def _dropped(unraisable: Any) -> None:
    """Raise Stopped again soon, where Python had to drop it."""
    if isinstance(unraisable.exc_value, Stopped):
        signal.setitimer(signal.ITIMER_REAL, SOON)
    else:
        sys.__unraisablehook__(unraisable)


@contextlib.contextmanager
def _signals_stop() -> Iterator[None]:
    """Let signals raise Stopped inside; afterwards ignore Ctrl-C, since the run is over. Only in the main thread."""
    handlers = dict.fromkeys(("SIGINT", "SIGTERM", "SIGHUP"), _stop) | {"SIGALRM": _stop_again}
    for name, handler in handlers.items():
        with contextlib.suppress(ValueError, AttributeError):  # another thread; a system without this signal
            number = getattr(signal, name)
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # nohup stays nohup
                signal.signal(number, handler)
                sys.unraisablehook = _dropped
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 explain found no match or check found damage, 2 wrong input (one sentence on "
    "stderr), 70 a bug in earmark, 130 interrupted.",
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
    os.environ.setdefault("EARMARK_NO_WARMING", "1")  # a command ends before its book would be planned again
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


for command in (
    demo,
    match,
    top_k,
    explain,
    save,
    book,
    check,
    repair,
    backup,
    audit,
    backtest,
    merge,
    generate,
    publish,
    stream,
    warm,
    broker,
    simulate,
    paper,
):
    main.add_command(command)
