"""Subscriptions as a DataFrame: from a file, a saved folder, or a folder of Parquet files."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from earmark.cli.reading import Reading
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.tabular.subscriptions import SubscriptionFile

ROW = "__row"


def subscriptions_frame(
    spark: SparkSession, path: str, reading: Reading, changes: bool
) -> tuple[DataFrame, dict[str, Any]]:
    """Return the subscriptions under a path, and what `Snapshot.publish` must know of them: types, zone and order.

    `changes` have a column op.
    """
    import pyarrow as pa

    from earmark.book.folder import is_book
    from earmark.cli.load import load
    from earmark.cli.options import NO_INDEX
    from earmark.spark.frames import address

    options: dict[str, Any] = {"attributes": reading.attributes or None, "zone": reading.zone or "UTC", "order_by": ROW}
    if is_book(path):
        if changes:
            raise EarmarkError(f"{path!r} is a saved folder, which has no column op: --changes takes a file")
        matcher = load(path, replace(reading, index=NO_INDEX)).matcher
        schema = matcher._version.schema
        options["attributes"] = {a.name: str(a.type) for a in schema if a.declared} or None
        options["zone"] = schema.zone_name
        table = _from_rows(path, [asdict(matcher[id]) for id in matcher.ids()], ())
    elif Path(path).is_dir():
        return spark.read.parquet(address(Path(path).absolute())), {**options, "order_by": None}
    else:
        table = _table(path, reading, changes)
    if ROW in table.column_names:
        raise EarmarkError(f"{path!r} has a column {ROW!r}, a name that earmark uses for the order of rows")
    numbered = table.append_column(ROW, pa.array(range(len(table)), pa.int64()))
    return spark.createDataFrame(numbered), options


def _table(path: str, reading: Reading, changes: bool) -> Any:
    """Return a file as an Arrow table; `changes` have a column op."""
    import pyarrow as pa

    from earmark.tabular.subscriptions import read_subscriptions

    extra = ("op",) if changes else ()
    file = read_subscriptions(reading.source(path), reading.attributes, extra)
    table = file.rows if isinstance(file.rows, pa.Table) else _from_rows(str(file.source), file.rows, extra)
    if changes:
        _check_ops(file, table)
    return table


def _from_rows(shown: str, rows: list[dict[str, Any]], extra: tuple[str, ...]) -> Any:
    """Return rows with conditions as a table."""
    import pyarrow as pa

    from earmark.tabular.subscriptions import NESTED, as_pairs, column_of

    kinds = {"id": None, "condition": pa.string(), "score": pa.float64(), **NESTED, **dict.fromkeys(extra, pa.string())}
    del kinds["ranges"]
    try:
        return pa.table({n: column_of(n, as_pairs([row.get(n) for row in rows]), t) for n, t in kinds.items()})
    except EarmarkError as problem:
        raise problem.at(source=shown) from None


def _check_ops(file: SubscriptionFile, table: Any) -> None:
    from earmark.spark.intake import OPS

    ops = table.column("op").to_pylist() if "op" in table.column_names else [None] * len(table)
    for row, op in enumerate(ops):
        if op not in OPS:
            raise file.located(EarmarkError(f"expected one of {', '.join(OPS)} for 'op', got {op!r}", row=row))
