"""The command line: every command is a call or two of the API.

Exit codes: 0 done; 1 `explain` of a subscription that does not match; 2 wrong input or usage, told in one sentence on
stderr; 130 interrupted (143 terminated, 129 hung up). Results go to stdout or to a file, everything else to stderr.

What a command needs is imported when it runs: `--help` and a mistyped option answer at once.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import click

from earmark import __version__
from earmark.errors import EarmarkError
from earmark.progress import end_bars

WRONG = 2
SIGNALS = ("SIGTERM", "SIGHUP")


class Stopped(Exception):
    """A signal ended the run. (A KeyboardInterrupt would make click print an empty line.)"""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


class Sentences(click.Group):
    """Whatever goes wrong is one sentence on stderr and an exit code, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; what click would turn into something else passes as an error of ours."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
            return result
        except KeyboardInterrupt:
            raise Stopped(signal.SIGINT) from None
        except BrokenPipeError:
            _let_go_of_stdout()  # whoever read our output has read enough
            return 0
        except OSError as problem:
            _let_go_of_stdout()
            raise EarmarkError(f"the run failed: {problem.strerror or problem}") from None
        except MemoryError:
            raise EarmarkError("there is not enough memory for this") from None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        try:
            with _signals_raise():
                code = super().main(*args, **kwargs)
        except click.ClickException as problem:
            _fail(_usage(problem), WRONG)
        except EarmarkError as problem:
            _fail(str(problem), WRONG)
        except Stopped as stop:
            _fail("interrupted; nothing was left half-written", stop.code)
        except (click.Abort, KeyboardInterrupt):
            _fail("interrupted; nothing was left half-written", 128 + signal.SIGINT)
        sys.exit(code if isinstance(code, int) else 0)


def _usage(problem: click.ClickException) -> str:
    """What click has to say, on one line, and where to read more."""
    message = " ".join(problem.format_message().split())
    if not isinstance(problem, click.UsageError) or problem.ctx is None:
        return message
    return f"{message.removesuffix('.')} (see: {problem.ctx.command_path} --help)"


def _fail(message: str, code: int) -> None:
    with contextlib.suppress(OSError):
        end_bars()
        click.echo("earmark: " + message.replace("\n", " "), err=True)
    sys.exit(code)


def _let_go_of_stdout() -> None:
    """Drop what stdout still holds, so that nothing complains at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Requests to end clean up behind them, as Ctrl-C does. Outside the main thread nothing changes."""

    def stop(number: int, frame: Any) -> None:
        raise Stopped(number)

    old = {}
    for name in SIGNALS:
        with contextlib.suppress(ValueError, AttributeError):
            if signal.getsignal(getattr(signal, name)) is signal.SIG_DFL:  # nohup stays nohup
                old[name] = signal.signal(getattr(signal, name), stop)
    try:
        yield
    finally:
        for name, handler in old.items():
            signal.signal(getattr(signal, name), handler)


@click.group(
    cls=Sentences,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 explain found no match, 2 wrong input (one sentence on stderr), 130 interrupted.",
)
@click.version_option(__version__, prog_name="earmark", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Match events against standing subscriptions: all that match, or the k best.

    Subscriptions are SQL conditions, events are rows. Files are Parquet (.parquet), CSV (.csv) or JSON
    lines (.jsonl), in and out.

    \b
    A first look:     earmark demo
    Some data:        earmark generate w2 data
    All matches:      earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet
    The three best:   earmark top-k data/subscriptions.parquet data/events.parquet -k 3
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


from earmark.cli.demo import demo  # noqa: E402 - commands hang on the group above
from earmark.cli.generate import generate  # noqa: E402
from earmark.cli.match import explain, match, top_k  # noqa: E402

for command in (demo, match, top_k, explain, generate):
    main.add_command(command)
