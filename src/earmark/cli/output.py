"""Where results go: rows to stdout or to a file, and a summary of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import click
import pyarrow as pa

from earmark.cli.rejects import Rejects
from earmark.tabular.write import Writer, csv_text, json_lines, written_format


def write_tables(tables: Iterator[pa.Table], output: str | None, as_json: bool = False) -> int:
    """Write tables of one schema, at least one, as they come; to stdout as CSV or as JSON lines. Counts the rows."""
    count = 0
    if output is None:
        for number, table in enumerate(tables):
            text = "".join(json_lines(table)) if as_json else csv_text(flat(table), header=number == 0)
            click.echo(text, nl=False)
            count += int(table.num_rows)
        return count
    if written_format(output) == "csv":
        tables = map(flat, tables)
    first = next(tables)
    with Writer(output, first.schema) as writer:
        for table in chain([first], tables):
            writer.write(table)
            count += int(table.num_rows)
    return count


def flat(table: pa.Table) -> pa.Table:
    """The same with lists as JSON in a string, since CSV has no lists."""
    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [json.dumps(values, ensure_ascii=False, default=str) for values in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(texts, pa.string()))
    return table


def sum_up(
    events: int,
    results: int,
    subscriptions: int,
    seconds: tuple[float, float],
    output: str | None,
    as_json: bool,
    rejects: Rejects | None = None,
) -> None:
    """What came of a search: a line on stderr, or an object on stdout where no rows of JSON go there.

    `seconds` are those of loading and those of matching. A second line tells what was not read.
    """
    loading, matching = seconds
    rejects = rejects or Rejects()
    if as_json and output is not None:
        counts = {"events": events, "results": results, "subscriptions": subscriptions}
        times = {"load_seconds": round(loading, 3), "match_seconds": round(matching, 3)}
        click.echo(json.dumps({**counts, **rejects.counts(), **times, "output": output}))
    elif not as_json:
        rate = f" ({events / matching:,.0f} per second)" if matching > 1 and events > 1 else ""
        click.echo(
            f"loaded {counted(subscriptions, 'subscription')} in {loading:.1f} s; "
            f"{counted(events, 'event')} in {matching:.1f} s{rate}: {counted(results, 'result')}",
            err=True,
        )
    if rejects.on_error != "raise" and not (as_json and output is not None):
        click.echo(rejects.summary(events), err=True)


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
