"""What a command reads and writes: subscriptions in, with the time it took to load them; results out."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import chain

import click
import pyarrow as pa

from earmark.book.folder import has_journal, path_of
from earmark.cli.book import moment_of
from earmark.cli.options import Reading
from earmark.cli.shown import printable, printable_json
from earmark.durable import open as open_book
from earmark.errors import EarmarkError
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.tabular.subscriptions import read_subscriptions
from earmark.tabular.write import csv_text, json_lines, plain_json, writing, written_format

ALONE = "condition"
"""The id of a subscription that is given as a condition alone."""


def load(path: str | None, reading: Reading, condition: str = "") -> tuple[Matcher, float]:
    """Load the subscriptions of a file or of a saved folder; without a path, one subscription of this condition.

    Returns a matcher, and the seconds it took.
    """
    begun = time.perf_counter()
    if path is not None and os.path.isdir(path):
        if reading.attributes or reading.zone or reading.time:
            options = "--attribute, --zone and --time"
            raise EarmarkError(f"a saved folder has its own types, zone and time: {options} are for files")
        return _of_folder(path, reading), time.perf_counter() - begun
    index, zone = reading.index or DEFAULT_INDEX, reading.zone or "UTC"
    matcher = Matcher(index, attributes=reading.attributes, zone=zone, time=reading.time)
    if path is None:
        matcher.add(ALONE, condition)
    else:
        file = read_subscriptions(reading.source(path), reading.attributes)
        try:
            matcher.add_many(file.rows)
        except EarmarkError as problem:
            raise file.located(problem) from None
    return matcher, time.perf_counter() - begun


def _of_folder(path: str, reading: Reading) -> Matcher:
    """Open a saved folder, or a book with a journal as it is or was."""
    if not has_journal(path_of(path)):
        if reading.as_of is not None:
            raise EarmarkError(f"--as-of is for a book with a journal, and {path!r} has none")
        return Matcher.load(path, index=reading.index)
    book = open_book(path, readonly=True, follow=False, index=reading.index)
    return book if reading.as_of is None else book.as_of(moment_of(reading.as_of))


def write_tables(tables: Iterator[pa.Table], output: str | None, as_json: bool = False) -> int:
    """Write tables of one schema, at least one, as they come, to stdout as CSV or JSON lines; return how many rows.

    Rows are data, so a pipe gets them as they are. A terminal would obey the control characters in them.
    """
    count = 0
    if output is None:
        is_terminal = sys.stdout.isatty()
        for number, table in enumerate(tables):
            if as_json:
                text = "".join(json_lines(table))
                text = printable_json(text) if is_terminal else text
            else:
                table = _printable(_flat(table)) if is_terminal else _flat(table)
                text = csv_text(table, header=number == 0)
            click.echo(text, nl=False)
            count += int(table.num_rows)
        return count
    if written_format(output) == "csv":
        tables = map(_flat, tables)
    first = next(tables)
    with writing(output, first.schema) as write:
        for table in chain([first], tables):
            write(table)
            count += int(table.num_rows)
    return count


def _printable(table: pa.Table) -> pa.Table:
    """Return the table with control characters in its strings escaped."""
    for i, field in enumerate(table.schema):
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            values = [None if value is None else printable(value) for value in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(values, field.type))
    return table


def _flat(table: pa.Table) -> pa.Table:
    """Return the table with lists as JSON strings, since CSV has no lists."""
    for i, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            lists = [
                None if values is None else json.dumps(plain_json(values), ensure_ascii=False, default=str)
                for values in table.column(i).to_pylist()
            ]
            table = table.set_column(i, field.name, pa.array(lists, pa.string()))
    return table
