"""`earmark publish`: a file of subscriptions as a snapshot that Spark workers search."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.session import session, ticking
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from earmark.spark import Snapshot

ROW = "__row"
SHOWN_REJECTS = 5
INDEX = "blocks"  # as Snapshot.publish


@click.command(short_help="Subscriptions as a snapshot for Spark, or changes to one.")
@click.argument("subscriptions")
@click.argument("snapshot")
@click.option("--index", default=INDEX, show_default=True, metavar="NAME", help="Which index to build.")
@click.option(
    "--shards",
    default=1,
    show_default=True,
    metavar="N",
    help="Cut the subscriptions into so many tables.",
)
@click.option("--changes", is_flag=True, help="The file has changes to the newest version, with a column op.")
@click.option("--reject", is_flag=True, help="Set rows aside that cannot be taken, instead of failing.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
@options.types
@options.on_spark
def publish(
    subscriptions: str,
    snapshot: str,
    index: str,
    attributes: dict[str, str],
    zone: str | None,
    shards: int,
    changes: bool,
    reject: bool,
    as_json: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Publish SUBSCRIPTIONS as the newest version of SNAPSHOT, a folder that Spark workers can see.

    SUBSCRIPTIONS is a file as for `earmark match`, whose order breaks ties; or a folder of Parquet files, read by
    the workers, where ids break ties. Readers see the old version or the new one, never half of it. With --shards,
    subscriptions that are alike lie together, and events are searched only in the shards that may match them.

    With --changes its rows are applied to the newest version: op is add, update, upsert or remove.

    \b
    Examples
      earmark publish ads.csv ads.snapshot
      earmark publish changes.csv ads.snapshot --changes
      earmark publish /shared/ads /shared/ads.snapshot --master spark://host:7077 --reject
    """
    check_subscriptions(subscriptions)
    if changes and (attributes or zone or index != INDEX or shards != 1):
        raise EarmarkError(
            "--changes go to a version that has its types, zone, index and shards: leave those options out"
        )
    begun = time.perf_counter()
    with session(master, conf) as spark, ticking(spark, "publishing"):
        from earmark.spark import Snapshot

        frame, order_by = subscriptions_frame(spark, subscriptions, attributes, changes)
        on_error = "reject" if reject else "fail"
        if changes:
            made = Snapshot.open(snapshot).apply(frame, order_by=order_by, on_error=on_error)
        else:
            made = Snapshot.publish(
                frame,
                snapshot,
                index=index,
                attributes=attributes or None,
                zone=zone or "UTC",
                order_by=order_by,
                on_error=on_error,
                shards=shards,
            )
        rejects = made.rejects.limit(SHOWN_REJECTS).collect() if made.info.rejected else []
    _sum_up(made, snapshot, time.perf_counter() - begun, rejects, as_json)


def _sum_up(made: Snapshot, path: str, took: float, rejects: list[Any], as_json: bool) -> None:
    info = made.info
    if as_json:
        told = {"snapshot": path, "version": info.number, "kind": info.kind, "subscriptions": info.subscriptions}
        click.echo(json.dumps({**told, "rejected": info.rejected, "seconds": round(took, 3)}))
        return
    click.echo(f"{path}: version {info.number}, {info.subscriptions:,} subscriptions")
    if info.rejected:
        click.echo(f"{info.rejected:,} row{'s' * (info.rejected > 1)} set aside:", err=True)
        for row in rejects:
            click.echo(f"  {row['id']}: {row['reason']}", err=True)
        if info.rejected > len(rejects):
            click.echo("  …", err=True)
    click.echo(f"published in {took:.1f} s", err=True)


def check_subscriptions(path: str) -> None:
    """Refuse early what could not be read."""
    from earmark.tabular.read import check_source

    if not Path(path).is_dir():
        check_source(path)


def subscriptions_frame(
    spark: SparkSession, path: str, attributes: dict[str, str], changes: bool
) -> tuple[DataFrame, str | None]:
    """The subscriptions of a file, or of a folder of Parquet files, and the column of their order."""
    if Path(path).is_dir():
        from earmark.spark.ledger import address

        return spark.read.parquet(address(Path(path).absolute())), None
    return spark.createDataFrame(_table(path, attributes, changes)), ROW


def _table(path: str, attributes: dict[str, str], changes: bool) -> Any:
    """A file as an Arrow table, with its rows numbered."""
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.subscriptions import read_subscriptions

    file = read_subscriptions(path, attributes)
    rows = file.rows
    table = rows if isinstance(rows, pa.Table) else _from_rows(path, rows)
    if changes:
        table = _with_ops(path, table)
    if ROW in table.column_names:
        raise EarmarkError(f"{path!r} has a column {ROW!r}, a name that earmark uses for the order of rows")
    return table.append_column(ROW, pa.array(np.arange(len(table))))


def _from_rows(path: str, rows: list[dict[str, Any]]) -> Any:
    """Rows with conditions, as JSON lines and CSV give them."""
    import pyarrow as pa

    from earmark.tabular.read import reason

    kinds = {
        "condition": pa.string(),
        "score": pa.float64(),
        "weights": pa.map_(pa.string(), pa.float64()),
        "tags": pa.map_(pa.string(), pa.string()),
    }
    columns = {}
    for name in ("id", *kinds):
        values = [row.get(name) for row in rows]
        if name in ("weights", "tags"):
            values = [list(value.items()) if isinstance(value, dict) else value for value in values]
        try:
            columns[name] = pa.array(values, kinds.get(name))
        except (pa.ArrowException, OverflowError, TypeError) as problem:
            raise EarmarkError(f"{path!r}: the values of {name!r} make no column: {reason(problem)}") from None
    return pa.table(columns)


def _with_ops(path: str, table: Any) -> Any:
    """The table with its column op, which only changes have."""
    import pyarrow as pa

    from earmark.spark.parts import OPS
    from earmark.tabular.read import read_batches

    ops: list[Any] = []
    for chunk in read_batches(path):
        if isinstance(chunk.rows, list):
            ops += [row.get("op") for row in chunk.rows]
        elif "op" in chunk.rows.column_names:
            ops += chunk.rows.column("op").to_pylist()
        else:
            ops += [None] * len(chunk.rows)
    for row, op in enumerate(ops):
        if op not in OPS:
            raise EarmarkError(f"{path!r}, row {row}: op is one of {', '.join(OPS)}; got {op!r}")
    if "op" in table.column_names:
        table = table.drop_columns(["op"])
    return table.append_column("op", pa.array(ops, pa.string()))
