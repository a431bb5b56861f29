"""Options and arguments that several commands share, each worded once.

Lower-case names are decorators: `@options.scope`. Options show up in `--help` from the top down.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import click

from earmark.cli.reading import Reading
from earmark.cli.rejects import MODES, OnError, Rejects
from earmark.cli.spark.session import MASTER

F = TypeVar("F", bound=Callable[..., Any])
NO_INDEX = "scan"
"""The index of commands that do not search: it takes no time to build."""


def _split(param: click.Parameter, values: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form {param.metavar}")
        yield name, rest


def pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict; a name may be given once."""
    found: dict[str, str] = {}
    for name, rest in _split(param, values):
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = rest
    return found


def settings(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return KEY=VALUE options as a dict; the last value of a key counts, as in Spark."""
    return dict(_split(param, values))


def numbers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Return NAME=NUMBER options as a dict of weights."""
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
    """Return a delimiter of one character; a tab may be written as \\t."""
    if value is None or value == "\\t":
        return value and "\t"
    if len(value) != 1 or not value.isascii() or value in '"\r\n':
        raise click.BadParameter(f"expected one ASCII character such as ';' or '\\t', got {value!r}")
    return value


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return several decorators as one, the first on top."""

    def decorate(command: F) -> F:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


def number(name: str, default: int | None, text: str, *, least: int = 1, most: int | None = None) -> Callable[[F], F]:
    """Return an option that is an integer from `least` to `most`; one without a default says in `text` what it is."""
    kind = click.IntRange(least, most)
    return click.option(name, default=default, show_default=default is not None, type=kind, metavar="N", help=text)


def repeated(name: str, variable: str, read: Callable[..., Any], metavar: str, text: str) -> Callable[[F], F]:
    """Return an option that may be repeated, whose values `read` makes into a dict."""
    return click.option(name, variable, multiple=True, callback=read, metavar=metavar, help=text)


_read = together(
    repeated(
        "--attribute",
        "attributes",
        pairs,
        "NAME=TYPE",
        "Declare a type: number, integer, float, boolean, string, date, timestamp or decimal(p,s). May be repeated; "
        "other types are inferred.",
    ),
    click.option("--zone", metavar="ZONE", help="Time zone of timestamps without one.  [default: UTC]"),
    click.option(
        "--format",
        metavar="FORMAT",
        help="Format of standard input and of files whose names do not say it: csv, tsv, jsonl, parquet; csv.gz, …",
    ),
    click.option("--delimiter", callback=_character, metavar="CHAR", help="Separator of CSV fields.  [default: ,]"),
)


def index(default: str | None = None, shown: str = "be_star_tree; of a saved folder, its own") -> Callable[[F], F]:
    """Return the option that names an index; without a default the command chooses, and `shown` says what."""
    text = f"Index to search with.  [default: {default or shown}]"
    return click.option("--index", default=default, metavar="NAME", help=text)


def reading(command: F) -> F:
    """Add the options that say how inputs are read, and pass them as one `Reading`, with `--index` if there is one."""

    @functools.wraps(command)
    def packed(
        attributes: dict[str, str], zone: str | None, format: str | None, delimiter: str | None, **rest: Any
    ) -> Any:
        index = rest.pop("index", NO_INDEX)
        return command(reading=Reading(attributes, zone, format, delimiter, index), **rest)

    return cast(F, _read(packed))


def file(name: str, text: str) -> Callable[[F], F]:
    """Return an option that names a file to write."""
    return click.option(*name.split(), metavar="FILE", help=text)


output = file("-o --output", "Write results here (.parquet, .csv, .tsv, .jsonl) instead of to stdout.")


def flag(name: str, text: str, variable: str | None = None) -> Callable[[F], F]:
    """Return an option without a value."""
    return click.option(name, *([variable] if variable else []), is_flag=True, help=text)


json_rows = flag("--json", "Print JSON lines; with -o, a summary as one JSON object.", "as_json")


def json_object(what: str) -> Callable[[F], F]:
    """Return the option --json of a command that prints one object."""
    return flag("--json", f"{what} as one JSON object.", "as_json")


event_id = click.option("--event-id", metavar="COLUMN", help="Name events by this column instead of by number, from 0.")

_unread = together(
    click.option(
        "--on-error",
        type=click.Choice(MODES),
        help="What happens when an event cannot be read: the run fails, the value counts as NULL, or the event is "
        "left out.  [default: raise; with --reject, reject]",
    ),
    file("--reject", "Write the values and events that could not be read here (.parquet, .csv, .tsv, .jsonl)."),
)


def rejects(command: F) -> F:
    """Add the options that say what happens to events that cannot be read, and pass them as one `Rejects`."""

    @functools.wraps(command)
    def packed(on_error: OnError | None, reject: str | None, **rest: Any) -> Any:
        return command(rejects=Rejects(on_error, reject), **rest)

    return cast(F, _unread(packed))


scope = repeated("--scope", "scope", pairs, "TAG=VALUE", "Only subscriptions with this tag. May be repeated.")

mode = click.option(
    "--mode",
    default="exact",
    show_default=True,
    type=click.Choice(["exact", "relaxed"]),
    help="exact takes subscriptions that match; relaxed also ranks those that match in part.",
)

weights = repeated(
    "--weight", "weights", numbers, "NAME=NUMBER", "Weight of an attribute, 1 by default. May be repeated."
)

on_spark = together(
    click.option(
        "--master",
        default=MASTER,
        show_default=True,
        metavar="URL",
        help="Where Spark runs: local[N], spark://…, yarn, k8s://…; sc://… is a Connect server.",
    ),
    repeated("--conf", "conf", settings, "KEY=VALUE", "A setting of Spark. May be repeated."),
)
