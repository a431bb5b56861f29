"""`earmark match`, `top-k` and `explain`: subscriptions and events from files."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from earmark.errors import EarmarkError
from earmark.matcher import Matcher
from earmark.progress import shares
from earmark.tabular import Writer, check_target, format_of, json_lines, read_batches, read_table

if TYPE_CHECKING:
    import pyarrow as pa

F = TypeVar("F", bound=Callable[..., Any])
GROUP = 2_048  # events searched at a time, so that a group's results fit in memory


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE")
        found[name] = rest
    return found


def _sources(command: F) -> F:
    """The arguments that all three commands share."""
    for option in (
        click.option("--zone", default="UTC", show_default=True, help="Zone of timestamps without one."),
        click.option(
            "--attribute",
            "attributes",
            multiple=True,
            callback=_pairs,
            metavar="NAME=TYPE",
            help="Declare a type, e.g. price=decimal(9,2). Others are learned.",
        ),
        click.option("--json", "as_json", is_flag=True, help="JSON for machines."),
        click.argument("subscriptions", type=click.Path()),
    ):
        command = option(command)
    return command


def _results(command: F) -> F:
    """The options of the commands that write results."""
    for option in (
        click.option(
            "--scope",
            multiple=True,
            callback=_pairs,
            metavar="TAG=VALUE",
            help="Only subscriptions with this tag; may be repeated.",
        ),
        click.option("--event-id", metavar="COLUMN", help="Name events by this column instead of by row number."),
        click.option(
            "-o", "--output", type=click.Path(), help="Write here (.parquet, .csv, .jsonl) instead of stdout."
        ),
        click.argument("events", type=click.Path()),
    ):
        command = option(command)
    return command


@click.command()
@_sources
@_results
def match(subscriptions: str, events: str, scope: dict[str, str], **options: Any) -> None:
    """All matches: (event, subscription, score) for every event of EVENTS.

    SUBSCRIPTIONS is a file with columns id and condition (and score, weights, tags), or ready-made bounds, or a folder
    that Matcher.save wrote. EVENTS is a file with one column an attribute.
    """
    _run(subscriptions, events, lambda m, table: m.match_batch(table, scope=scope), **options)


@click.command("top-k")
@_sources
@_results
@click.option("-k", default=10, show_default=True, type=click.IntRange(1), help="How many results an event.")
@click.option("--mode", default="exact", show_default=True, type=click.Choice(["exact", "relaxed"]))
@click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=_pairs,
    metavar="NAME=NUMBER",
    help="Weight of an attribute for all events; may be repeated.",
)
def top_k(
    subscriptions: str, events: str, k: int, mode: str, weights: dict[str, str], scope: dict[str, str], **options: Any
) -> None:
    """The k best subscriptions for every event, best first: (event, subscription, score)."""
    numbers = {name: _number(name, text) for name, text in weights.items()}
    _run(
        subscriptions,
        events,
        lambda m, table: m.top_k_batch(table, k, mode=mode, weights=numbers or None, scope=scope),
        **options,
    )


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"the weight of {name!r} is {text!r}, not a number") from None


@click.command()
@_sources
@click.argument("id")
@click.argument("event")
def explain(subscriptions: str, id: str, event: str, as_json: bool, attributes: dict[str, str], zone: str) -> int:
    """Why subscription ID matches EVENT, or not. EVENT is a JSON object.

    Exit code 0 when it matches, 1 when it does not.
    """
    try:
        row = json.loads(event)
    except (ValueError, RecursionError):
        raise EarmarkError(f"the event {event[:100]!r} is not a JSON object") from None
    if not isinstance(row, dict):
        raise EarmarkError(f"the event is a JSON object such as '{{\"age\": 27}}'; got {event[:100]!r}")
    matcher = opened(subscriptions, attributes, zone)
    key: Any = int(id) if id not in matcher and id.lstrip("-").isdigit() and int(id) in matcher else id
    found = matcher.explain(key, row)
    click.echo(json.dumps(_record(found), default=str) if as_json else str(found))
    return 0 if found.matched else 1


def _record(found: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(found)


# --- the run -------------------------------------------------------------------------------------------------


def opened(path: str, attributes: dict[str, str], zone: str) -> Matcher:
    """The matcher of a file of subscriptions or of a saved folder."""
    if Path(path).is_dir():
        if attributes:
            raise EarmarkError("a saved folder knows its types: --attribute is for files")
        return Matcher.load(path)
    matcher = Matcher(attributes=attributes, zone=zone)
    matcher.add_many(_decoded(read_table(path)))
    return matcher


def _decoded(frame: pa.Table) -> pa.Table:
    """Weights and tags, which CSV can hold only as JSON text, as maps."""
    import pyarrow as pa

    for name, value in (("weights", pa.float64()), ("tags", pa.string())):
        if name in frame.column_names and pa.types.is_string(frame.schema.field(name).type):
            column = pa.array(
                [_object(text, name, row) for row, text in enumerate(frame.column(name).to_pylist())],
                pa.map_(pa.string(), value),
            )
            frame = frame.set_column(frame.column_names.index(name), name, column)
    return frame


def _object(text: str | None, name: str, row: int) -> Any:
    try:
        return list(json.loads(text).items()) if text else None
    except (ValueError, AttributeError, RecursionError):
        raise EarmarkError(f"row {row}: {name} is {text!r}, not a JSON object") from None


def _run(
    subscriptions: str,
    events: str,
    search: Callable[[Matcher, Any], Any],
    output: str | None,
    event_id: str | None,
    as_json: bool,
    attributes: dict[str, str],
    zone: str,
) -> None:
    if output is not None:
        check_target(output)
    format_of(events)
    matcher = opened(subscriptions, attributes, zone)
    begun = time.perf_counter()
    counts = {"events": 0, "results": 0}
    results = _searched(matcher, events, search, event_id, counts)
    if output is None:
        for i, table in enumerate(results):
            click.echo("".join(json_lines(table)) if as_json else _csv(table, header=i == 0), nl=False)
    else:
        _write(results, output)
    took = time.perf_counter() - begun
    summary = {**counts, "subscriptions": len(matcher), "seconds": round(took, 3)}
    if as_json and output is not None:
        click.echo(json.dumps({**summary, "output": output}))
    elif not as_json:
        rate = counts["events"] / max(took, 1e-9)
        click.echo(
            f"{counts['events']:,} events, {counts['results']:,} results in {took:.1f} s ({rate:,.0f} events a second)",
            err=True,
        )


def _searched(
    matcher: Matcher, events: str, search: Callable[[Matcher, Any], Any], event_id: str | None, counts: dict[str, int]
) -> Iterator[Any]:
    """Results a group of events at a time. Yields at least one table, so that an output has its columns."""
    empty = True
    for chunk in shares(read_batches(events, column_types(matcher)), "matching"):
        if event_id is not None and event_id not in chunk.table.column_names:
            names = ", ".join(chunk.table.column_names)
            raise EarmarkError(f"{events!r} has no column {event_id!r}; its columns are {names}")
        for start in range(0, chunk.table.num_rows, GROUP):
            group = chunk.table.slice(start, GROUP)
            yield _numbered(search(matcher, group), group, event_id, counts)
            empty = False
    if empty:
        yield search(matcher, [])


def _numbered(found: Any, group: Any, event_id: str | None, counts: dict[str, int]) -> Any:
    import pyarrow.compute as pc

    column = found.column("event")
    column = pc.add(column, counts["events"]) if event_id is None else group.column(event_id).take(column)
    counts["events"] += group.num_rows
    counts["results"] += found.num_rows
    return found.set_column(0, "event", column)


def column_types(matcher: Matcher) -> dict[str, pa.DataType]:
    """The Arrow types of attributes whose values CSV could show as something else."""
    import pyarrow as pa

    found: dict[str, pa.DataType] = {}
    plain = {"string": pa.string(), "boolean": pa.bool_(), "date": pa.date32(), "float": pa.float64()}
    for name, kind in matcher.stats()["attributes"].items():
        if kind in plain:
            found[name] = plain[kind]
        elif kind and kind.startswith("decimal"):
            precision, scale = (int(part) for part in kind[8:-1].split(","))
            found[name] = pa.decimal128(precision, scale)
    return found


def _write(results: Iterator[Any], output: str) -> None:
    first = next(results)
    with Writer(output, first.schema) as writer:
        writer.write(first)
        for table in results:
            writer.write(table)


def _csv(table: Any, header: bool) -> str:
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return str(sink.getvalue().to_pybytes().decode())
