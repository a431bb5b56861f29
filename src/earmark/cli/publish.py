"""`earmark publish`: a file of subscriptions as a snapshot that Spark workers search."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.frame import subscriptions_frame
from earmark.cli.reading import Reading
from earmark.cli.session import session, ticking
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.spark import Snapshot

SHOWN_REJECTS = 5
INDEX = "blocks"  # as Snapshot.publish


@click.command(short_help="Subscriptions as a snapshot for Spark, or changes to one.")
@click.argument("subscriptions")
@click.argument("snapshot")
@options.index(INDEX)
@click.option(
    "--shards",
    default=1,
    show_default=True,
    metavar="N",
    help="Number of tables to split the subscriptions into.",
)
@click.option("--changes", is_flag=True, help="The file has changes to the newest version, with a column op.")
@click.option("--reject", is_flag=True, help="Set rows aside that cannot be taken, instead of failing.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as one JSON object.")
@options.reading
@options.on_spark
def publish(
    subscriptions: str,
    snapshot: str,
    reading: Reading,
    shards: int,
    changes: bool,
    reject: bool,
    as_json: bool,
    master: str,
    conf: dict[str, str],
) -> None:
    """Publish SUBSCRIPTIONS as the newest version of SNAPSHOT, a folder that Spark workers can see.

    SUBSCRIPTIONS is a file or a saved folder as for `earmark match`, whose order breaks ties; or a folder of Parquet
    files, read by the workers, where ids break ties. Readers see the old version or the new one, never half of it.
    With --shards, similar subscriptions share a table, and events are searched only in the tables that may match them.

    With --changes its rows are applied to the newest version: op is add, update, upsert or remove.

    \b
    Examples
      earmark publish ads.csv ads.snapshot
      earmark publish changes.csv ads.snapshot --changes
      earmark publish /shared/ads /shared/ads.snapshot --master spark://host:7077 --reject
    """
    reading.check(subscriptions)
    if changes and (reading.attributes or reading.zone or reading.index != INDEX or shards != 1):
        raise EarmarkError(
            "--changes go to a version that has its types, zone, index and shards: leave those options out"
        )
    begun = time.perf_counter()
    with session(master, conf) as spark, ticking(spark, "publishing"):
        from earmark.spark import Snapshot

        given = subscriptions_frame(spark, subscriptions, reading, changes)
        on_error = "reject" if reject else "fail"
        if changes:
            made = Snapshot.open(snapshot).apply(given.frame, order_by=given.order_by, on_error=on_error)
        else:
            made = Snapshot.publish(
                given.frame,
                snapshot,
                index=reading.index or INDEX,
                attributes=given.attributes or None,
                zone=given.zone,
                order_by=given.order_by,
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
