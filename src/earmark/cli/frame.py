"""Subscriptions as a DataFrame for Spark: from a file, a saved folder, or a folder of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from earmark.cli.reading import Reading
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.tabular.subscriptions import SubscriptionFile

ROW = "__row"


class SubscriptionsFrame(NamedTuple):
    """Subscriptions, the column of their order, and the declared types and zone that go with them."""

    frame: DataFrame
    order_by: str | None
    attributes: Mapping[str, str]
    zone: str


def subscriptions_frame(spark: SparkSession, path: str, reading: Reading, changes: bool) -> SubscriptionsFrame:
    """The subscriptions under a path; `changes` have a column op."""
    if _is_saved(path):
        if changes:
            raise EarmarkError(f"{path!r} is a saved folder, which has no column op: --changes takes a file")
        return _saved(spark, path, reading)
    zone = reading.zone or "UTC"
    if Path(path).is_dir():
        from earmark.spark.ledger import address

        frame = spark.read.parquet(address(Path(path).absolute()))
        return SubscriptionsFrame(frame, None, reading.attributes, zone)
    frame = spark.createDataFrame(_numbered(path, _table(path, reading, changes)))
    return SubscriptionsFrame(frame, ROW, reading.attributes, zone)


def _is_saved(path: str) -> bool:
    from earmark.book.folder import is_book

    return is_book(path)


def _saved(spark: SparkSession, path: str, reading: Reading) -> SubscriptionsFrame:
    """The subscriptions of a saved folder, with the types and the zone that it was made with."""
    from dataclasses import asdict, replace

    from earmark.cli.load import load
    from earmark.cli.options import NO_INDEX

    matcher = load(path, replace(reading, index=NO_INDEX)).matcher
    schema = matcher._version.schema
    declared = {attribute.name: str(attribute.type) for attribute in schema if attribute.declared}
    table = _from_rows(path, [asdict(matcher.get(id)) for id in matcher.ids()], ())
    return SubscriptionsFrame(spark.createDataFrame(_numbered(path, table)), ROW, declared, schema.zone_name)


def _numbered(path: str, table: Any) -> Any:
    """The table with its rows numbered."""
    import numpy as np
    import pyarrow as pa

    if ROW in table.column_names:
        raise EarmarkError(f"{path!r} has a column {ROW!r}, a name that earmark uses for the order of rows")
    return table.append_column(ROW, pa.array(np.arange(len(table))))


def _table(path: str, reading: Reading, changes: bool) -> Any:
    """A file as an Arrow table; `changes` have a column op."""
    import pyarrow as pa

    from earmark.tabular.subscriptions import read_subscriptions

    extra = ("op",) if changes else ()
    file = read_subscriptions(reading.source(path), reading.attributes, extra)
    table = file.rows if isinstance(file.rows, pa.Table) else _from_rows(str(file.source), file.rows, extra)
    if changes:
        _check_ops(file, table)
    return table


def _from_rows(shown: str, rows: list[dict[str, Any]], extra: tuple[str, ...]) -> Any:
    """Rows with conditions as a table."""
    import pyarrow as pa

    from earmark.tabular.source import reason

    kinds = {
        "condition": pa.string(),
        "score": pa.float64(),
        "weights": pa.map_(pa.string(), pa.float64()),
        "tags": pa.map_(pa.string(), pa.string()),
        **dict.fromkeys(extra, pa.string()),
    }
    columns = {}
    for name in ("id", *kinds):
        values = [row.get(name) for row in rows]
        if name in ("weights", "tags"):
            values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        try:
            columns[name] = pa.array(values, kinds.get(name))
        except (pa.ArrowException, OverflowError, TypeError) as problem:
            told = f"the values of {name!r} make no column: {reason(problem)}"
            raise EarmarkError(told, source=shown) from None
    return pa.table(columns)


def _check_ops(file: SubscriptionFile, table: Any) -> None:
    from earmark.book.parts import OPS

    ops = table.column("op").to_pylist() if "op" in table.column_names else [None] * len(table)
    for row, op in enumerate(ops):
        if op not in OPS:
            raise file.located(EarmarkError(f"expected one of {', '.join(OPS)} for 'op', got {op!r}", row=row))
