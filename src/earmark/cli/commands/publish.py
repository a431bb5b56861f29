"""`earmark publish`: write a file of subscriptions as a snapshot that Spark workers search."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.reading import Reading
from earmark.cli.spark.frame import subscriptions_frame
from earmark.cli.spark.session import session, ticking
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.book.folder import VersionInfo

SHOWN_REJECTS = 5
INDEX = "blocks"  # as Snapshot.publish


@click.command(short_help="Write subscriptions as a snapshot for Spark, or changes to one.")
@click.argument("subscriptions")
@click.argument("snapshot")
@options.index(INDEX)
@click.option("--shards", default=1, show_default=True, metavar="N", help="Number of shards.")
@options.flag("--changes", "Apply the rows as changes to the newest version; they have a column op.")
@options.flag("--reject", "Reject rows that cannot be read, instead of failing.")
@options.json_object("Print the outcome")
@options.reading
@options.on_spark
def publish(
    *,
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
    With --shards, similar subscriptions share a shard, and events are searched only in the shards that may match them.

    With --changes, the rows of the file change the newest version: op is add, update, upsert or remove.

    \b
    Examples
      earmark publish ads.csv ads.snapshot
      earmark publish changes.csv ads.snapshot --changes
      earmark publish /shared/ads /shared/ads.snapshot --master spark://host:7077 --reject
    """
    reading.check(subscriptions)
    if changes and (reading.attributes or reading.zone or reading.index != INDEX or shards != 1):
        raise EarmarkError("--changes keep the types, zone, index and shards of the version: leave those options out")
    begun = time.perf_counter()
    with session(master, conf) as spark, ticking(spark, "publishing"):
        from earmark.spark import Snapshot

        frame, how = subscriptions_frame(spark, subscriptions, reading, changes)
        on_error = "reject" if reject else "fail"
        if changes:
            version = Snapshot.open(snapshot).apply(frame, order_by=how["order_by"], on_error=on_error)
        else:
            index = reading.index or INDEX
            version = Snapshot.publish(frame, snapshot, index=index, on_error=on_error, shards=shards, **how)
        rejects = version.rejects.limit(SHOWN_REJECTS).collect() if version.info.rejected else []
    _sum_up(version.info, snapshot, time.perf_counter() - begun, rejects, as_json)


def _sum_up(info: VersionInfo, path: str, took: float, rejects: list[Any], as_json: bool) -> None:
    from earmark.language.words import counted

    if as_json:
        figures = {"snapshot": path, "version": info.number, "kind": info.kind, "subscriptions": info.subscriptions}
        click.echo(json.dumps({**figures, "rejected": info.rejected, "seconds": round(took, 3)}))
        return
    click.echo(f"{path}: version {info.number}, {counted(info.subscriptions, 'subscription')}")
    if info.rejected:
        click.echo(f"{counted(info.rejected, 'row')} rejected:", err=True)
        for row in rejects:
            click.echo(f"  {row['id']}: {row['reason']}", err=True)
        if info.rejected > len(rejects):
            click.echo("  …", err=True)
    click.echo(f"published in {took:.1f} s", err=True)
