"""Options and arguments that several commands share, each worded once.

What is named in small letters here is a decorator: `@options.scope`. Options show up in `--help` from the top down.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import click

from earmark.cli.reading import Reading
from earmark.cli.rejects import MODES, OnError, Rejects
from earmark.cli.session import MASTER

F = TypeVar("F", bound=Callable[..., Any])
NO_INDEX = "scan"
"""The index of commands that search nothing: it takes no time to build."""


def _split(param: click.Parameter, values: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form {param.metavar}")
        yield name, rest


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a dict, each name once."""
    found: dict[str, str] = {}
    for name, rest in _split(param, values):
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = rest
    return found


def settings(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """KEY=VALUE options as a dict; of one key given twice the last counts, as Spark has it."""
    return dict(_split(param, values))


def numbers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """NAME=NUMBER options as a dict of weights."""
    found = {}
    for name, text in pairs(ctx, param, values).items():
        try:
            number = float(text)
        except ValueError:
            raise click.BadParameter(f"the weight of {name!r} must be a number, got {text!r}") from None
        if not math.isfinite(number) or number < 0:
            raise click.BadParameter(f"the weight of {name!r} must be finite and not negative, got {text}")
        found[name] = number
    return found


def _character(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """One character; a tab may be written as \\t."""
    if value is None or value == "\\t":
        return value and "\t"
    if len(value) != 1 or not value.isascii() or value in '"\r\n':
        raise click.BadParameter(f"expected one ASCII character such as ';' or '\\t', got {value!r}")
    return value


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Several decorators as one, the first on top."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


_types = together(
    click.option(
        "--attribute",
        "attributes",
        multiple=True,
        callback=pairs,
        metavar="NAME=TYPE",
        help="Declare a type: number, integer, float, boolean, string, date, timestamp or decimal(p,s). May be "
        "repeated; other types are learned.",
    ),
    click.option("--zone", metavar="ZONE", help="Time zone of timestamps that name none.  [default: UTC]"),
)

_files = together(
    click.option(
        "--format",
        metavar="FORMAT",
        help="Format of standard input and of files whose names do not say it: csv, tsv, jsonl, parquet; csv.gz, …",
    ),
    click.option(
        "--delimiter", callback=_character, metavar="CHAR", help="What separates the fields of CSV.  [default: ,]"
    ),
)


def index(default: str | None = None, shown: str = "be_star_tree; of a saved folder, its own") -> Callable[[F], F]:
    """Which index to search with; None leaves the choice to the command, and `shown` says what it chooses."""
    return click.option(
        "--index", default=default, metavar="NAME", help=f"Index to search with.  [default: {default or shown}]"
    )


def reading(command: F) -> F:
    """Say how inputs are read; the command gets it as one `Reading`, with its `index` where it has that option."""

    @functools.wraps(command)
    def packed(
        attributes: dict[str, str], zone: str | None, format: str | None, delimiter: str | None, **rest: Any
    ) -> Any:
        index = rest.pop("index", NO_INDEX)
        return command(reading=Reading(attributes, zone, format, delimiter, index), **rest)

    return cast(F, together(_types, _files)(packed))


output = click.option(
    "-o", "--output", metavar="FILE", help="Write results here (.parquet, .csv, .tsv, .jsonl) instead of to stdout."
)

json_rows = click.option(
    "--json", "as_json", is_flag=True, help="JSON lines on stdout; with -o, a summary as one JSON object."
)

event_id = click.option("--event-id", metavar="COLUMN", help="Name events by this column instead of by number, from 0.")

_unread = together(
    click.option(
        "--on-error",
        type=click.Choice(MODES),
        help="What becomes of an event that cannot be read: the run fails, the value counts as NULL, or the event is "
        "left out.  [default: raise; with --reject, reject]",
    ),
    click.option(
        "--reject", metavar="FILE", help="Write what could not be read of events here (.parquet, .csv, .tsv, .jsonl)."
    ),
)


def rejects(command: F) -> F:
    """Say what becomes of events that cannot be read; the command gets it as one `Rejects`."""

    @functools.wraps(command)
    def packed(on_error: OnError | None, reject: str | None, **rest: Any) -> Any:
        return command(rejects=Rejects(on_error, reject), **rest)

    return cast(F, _unread(packed))


scope = click.option(
    "--scope",
    multiple=True,
    callback=pairs,
    metavar="TAG=VALUE",
    help="Only subscriptions with this tag. May be repeated: all must hold.",
)

mode = click.option(
    "--mode",
    default="exact",
    show_default=True,
    type=click.Choice(["exact", "relaxed"]),
    help="exact takes what matches; relaxed ranks what holds in part.",
)

weights = click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=numbers,
    metavar="NAME=NUMBER",
    help="Weight of an attribute, for all events. May be repeated; others weigh 1.",
)

on_spark = together(
    click.option(
        "--master",
        default=MASTER,
        show_default=True,
        metavar="URL",
        help="Where Spark runs: local[N], spark://…, yarn, k8s://…; sc://… is a Connect server.",
    ),
    click.option(
        "--conf", multiple=True, callback=settings, metavar="KEY=VALUE", help="A setting of Spark. May be repeated."
    ),
)
