"""Options and arguments that several commands share, each worded once.

Lower-case names are decorators: `@options.scope`. Options show up in `--help` from the top down.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from earmark.errors import EarmarkError
from earmark.tabular.source import STDIN, Source, format_of, source_of

if TYPE_CHECKING:
    from earmark.cli.search import Rejects

F = TypeVar("F", bound=Callable[..., Any])
NO_INDEX = "scan"
"""The index of commands that do not search: it takes no time to build."""
MASTER = "local[*]"


@dataclass(frozen=True, slots=True)
class Reading:
    """The options that say how subscriptions and events are read, and which index searches them."""

    attributes: Mapping[str, str]
    zone: str | None
    time: str | None
    format: str | None
    delimiter: str | None
    as_of: str | None = None
    index: str | None = NO_INDEX

    def source(self, path: str) -> Source:
        """Return the file of this name, or standard input."""
        return source_of(path, self.format, self.delimiter)

    def check(self, *paths: str, output: str | None = None) -> None:
        """Refuse inputs that could not be read, standard input given twice, and options that no input needs.

        Refuse an output that could not be written, too, or that is one of the inputs.
        """
        from earmark.tabular.write import check_target

        if paths.count(STDIN) > 1:
            raise EarmarkError("only one input can be '-': standard input is read once")
        if self.index is not None:
            from earmark.index import builder

            builder(self.index)
        files = [path for path in paths if not os.path.isdir(path)]
        if self.format is not None and all(format_of(path) is not None for path in files):
            raise EarmarkError("--format is for standard input and for file names that do not say their format")
        sources = [self.source(path) for path in files]
        separated = [source for source in sources if source.format == "csv" and source.delimiter == self.delimiter]
        if self.delimiter is not None and not separated:
            raise EarmarkError("--delimiter is for CSV, and no input is CSV")
        if self.as_of is not None and not any(os.path.isdir(path) for path in paths):
            raise EarmarkError("--as-of is for a book, and no input is one")
        if output is not None:
            check_target(output, paths)


# --- how the values of options are read ------------------------------------------------------------------------------


def _split(param: click.Parameter, values: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form {param.metavar}")
        yield name, rest


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return NAME=VALUE options as a dict; a name may be given once."""
    found: dict[str, str] = {}
    for name, rest in _split(param, values):
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = rest
    return found


def _settings(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Return KEY=VALUE options as a dict; the last value of a key counts, as in Spark."""
    return dict(_split(param, values))


def _numbers(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    """Return NAME=NUMBER options as a dict of weights."""
    found = {}
    for name, text in _pairs(ctx, param, values).items():
        try:
            found[name] = float(text)
        except ValueError:
            raise click.BadParameter(f"the weight of {name!r} must be a number, got {text!r}") from None
        if not math.isfinite(found[name]) or found[name] < 0:
            raise click.BadParameter(f"the weight of {name!r} must be finite and not negative, got {text}")
    return found


def _character(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return a delimiter of one character; a tab may be written as \\t."""
    if value is None or value == "\\t":
        return value and "\t"
    if len(value) != 1 or not value.isascii() or value in '"\r\n':
        raise click.BadParameter(f"expected one ASCII character such as ';' or '\\t', got {value!r}")
    return value


# --- kinds of options ------------------------------------------------------------------------------------------------


def together(*decorators: Callable[[F], F]) -> Callable[[F], F]:
    """Return several decorators as one, the first on top."""
    return lambda command: functools.reduce(lambda inner, decorate: decorate(inner), reversed(decorators), command)


def _packed(name: str, fields: Sequence[str], make: Callable[..., Any], *added: Callable[[F], F]) -> Callable[[F], F]:
    """Return a decorator that adds options, and passes those called `fields` as one argument, which `make` makes."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def call(**given: Any) -> Any:
            own = {field: given.pop(field) for field in fields if field in given}
            return command(**{name: make(**own)}, **given)

        return together(*added)(cast(F, call))

    return decorate


def number(name: str, default: int | None, text: str, *, least: int = 1, most: int | None = None) -> Callable[[F], F]:
    """Return an option that is an integer from `least` to `most`; one without a default says in `text` what it is."""
    kind = click.IntRange(least, most)
    return click.option(name, default=default, show_default=default is not None, type=kind, metavar="N", help=text)


def choice(name: str, default: str, choices: Sequence[str], text: str) -> Callable[[F], F]:
    """Return an option that takes one of a few values."""
    return click.option(*name.split(), default=default, show_default=True, type=click.Choice(choices), help=text)


def _repeated(name: str, read: Callable[..., Any], metavar: str, text: str) -> Callable[[F], F]:
    """Return an option that may be repeated, whose values `read` makes into a dict."""
    return click.option(*name.split(), multiple=True, callback=read, metavar=metavar, help=text)


def index(default: str | None = None, shown: str = "auto; of a saved folder, its own") -> Callable[[F], F]:
    """Return the option that names an index; without a default the command chooses, and `shown` says what."""
    text = f"Index to search with.  [default: {default or shown}]"
    return click.option("--index", default=default, metavar="NAME", help=text)


def file(name: str, text: str) -> Callable[[F], F]:
    """Return an option that names a file to write."""
    return click.option(*name.split(), metavar="FILE", help=text)


def flag(name: str, text: str) -> Callable[[F], F]:
    """Return an option without a value; `name` may be followed by that of the argument."""
    return click.option(*name.split(), is_flag=True, help=text)


def json_object(what: str) -> Callable[[F], F]:
    """Return the option --json of a command that prints one object."""
    return flag("--json as_json", f"{what} as one JSON object.")


# --- the options -----------------------------------------------------------------------------------------------------

_types = "number, integer, float, boolean, string, date, timestamp or decimal(p,s)"
_declare = f"Declare a type: {_types}. May be repeated; other types are inferred."
_formats = "csv, tsv, jsonl, parquet; csv.gz, …"
_format = f"Format of standard input and of files whose names do not say it: {_formats}"
_modes = "exact takes subscriptions that match; relaxed also ranks those that match in part."
_weight = "Weight of an attribute, 1 by default. May be repeated."
_outcomes = (
    "the run fails, the value counts as NULL, or the event is left out.  [default: raise; with --reject, reject]"
)
_on_error = f"What happens when an event cannot be read: {_outcomes}"
_time = "The attribute that tells when an event happened, for subscriptions that start or end."
_at = "When the events happened, for subscriptions that start or end.  [default: --time tells; else now]"
_masters = "Where Spark runs: local[N], spark://…, yarn, k8s://…; sc://… is a Connect server."

attribute_types = _repeated("--attribute attributes", _pairs, "NAME=TYPE", _declare)
as_of = click.option("--as-of", metavar="CHANGE", help="Take a book as it was after this change, or at this time.")
zone = click.option("--zone", metavar="ZONE", help="Time zone of timestamps without one.  [default: UTC]")
time = click.option("--time", metavar="NAME", help=_time)
tags = _repeated("--tag tags", _pairs, "TAG=VALUE", "Tag of the subscription. May be repeated.")
reading = _packed(
    "reading",
    Reading.__slots__,
    Reading,
    attribute_types,
    zone,
    time,
    click.option("--format", metavar="FORMAT", help=_format),
    click.option("--delimiter", callback=_character, metavar="CHAR", help="Separator of CSV fields.  [default: ,]"),
    as_of,
)


def _rejects(on_error: Any, reject: str | None) -> Rejects:
    from earmark.cli.search import Rejects

    return Rejects(on_error, reject)


rejects = _packed(
    "rejects",
    ("on_error", "reject"),
    _rejects,
    click.option("--on-error", type=click.Choice(["raise", "null", "reject"]), help=_on_error),
    file("--reject", "Write the values and events that could not be read here (.parquet, .csv, .tsv, .jsonl)."),
)
output = file("-o --output", "Write results here (.parquet, .csv, .tsv, .jsonl) instead of to stdout.")
json_rows = flag("--json as_json", "Print JSON lines; with -o, a summary as one JSON object.")
event_id = click.option("--event-id", metavar="COLUMN", help="Name events by this column instead of by number, from 0.")
at = click.option("--at", metavar="TIMESTAMP", help=_at)
scope = _repeated("--scope", _pairs, "TAG=VALUE", "Only subscriptions with this tag. May be repeated.")
mode = choice("--mode", "exact", ["exact", "relaxed"], _modes)
weights = _repeated("--weight weights", _numbers, "NAME=NUMBER", _weight)
on_spark = together(
    click.option("--master", default=MASTER, show_default=True, metavar="URL", help=_masters),
    _repeated("--conf", _settings, "KEY=VALUE", "A setting of Spark. May be repeated."),
)
