"""Where results go: rows to stdout or to a file, and a summary of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain

import click
import pyarrow as pa

from earmark.cli.rejects import Rejects
from earmark.language.words import counted
from earmark.tabular.write import csv_text, json_lines, writing, written_format


def write_tables(tables: Iterator[pa.Table], output: str | None, as_json: bool = False) -> int:
    """Write tables of one schema, at least one, as they come, to stdout as CSV or JSON lines; return how many rows."""
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
    with writing(output, first.schema) as write:
        for table in chain([first], tables):
            write(table)
            count += int(table.num_rows)
    return count


def flat(table: pa.Table) -> pa.Table:
    """Return the table with lists as JSON strings, since CSV has no lists."""
    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            lists = [json.dumps(values, ensure_ascii=False, default=str) for values in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(lists, pa.string()))
    return table


def sum_up(
    counts: dict[str, int], seconds: tuple[float, float], output: str | None, as_json: bool, rejects: Rejects
) -> None:
    """Print a summary of a search: a line on stderr, or a JSON object on stdout where no rows go there.

    `counts` are of events, results and subscriptions, in this order; `seconds` of loading and of matching. A second
    line says what was not read.
    """
    loading, matching = seconds
    events, results, subscriptions = counts.values()
    if as_json and output is not None:
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
