"""What is prepared before a search: `earmark save` (a folder), `publish` (a snapshot for Spark), `warm` (kernels)."""

from __future__ import annotations

import json
import os
import time
from importlib.util import find_spec
from pathlib import Path

import click

import earmark.spark
from earmark.cli import options
from earmark.cli.shown import printable
from earmark.errors import EarmarkError
from earmark.language.words import counted

SHOWN_REJECTS = 5
INDEX = "auto"  # as Snapshot.publish


@click.command(short_help="Write subscriptions and their index as a folder that loads at once.")
@click.argument("subscriptions")
@click.argument("folder")
@options.json_object("Print the outcome")
@options.index()
@options.reading
def save(subscriptions: str, folder: str, as_json: bool, reading: options.Reading) -> None:
    """Parse SUBSCRIPTIONS, build their index, and write both to FOLDER.

    Every command that takes SUBSCRIPTIONS takes such a folder instead, and so does Matcher.load: nothing is parsed or
    built again. A folder that was saved before gets another version; any other folder or file is left alone.
    SUBSCRIPTIONS is as for `earmark match`.

    \b
    Examples
      earmark save ads.csv ads.earmark
      earmark match ads.earmark visitors.parquet -o hits.parquet
      zcat ads.csv.gz | earmark save - ads.earmark --format csv --index blocks
    """
    from earmark.book.folder import refuse_foreign
    from earmark.cli.files import load

    reading.check(subscriptions)
    refuse_foreign(Path(folder))  # before the work, and again when it is done
    if os.path.exists(folder) and subscriptions != "-" and os.path.samefile(subscriptions, folder):
        raise EarmarkError(f"{folder!r} cannot be written: it is read from")
    matcher, loading = load(subscriptions, reading)
    begun = time.perf_counter()
    matcher.save(folder)
    saving = time.perf_counter() - begun
    if as_json:
        seconds = {"load_seconds": round(loading, 3), "save_seconds": round(saving, 3)}
        counts = {"subscriptions": len(matcher), "index": matcher.index}
        click.echo(json.dumps({**counts, **seconds, "output": folder}))
        return
    click.echo(f"saved {counted(len(matcher), 'subscription')} to {folder!r}")
    click.echo(f"loaded in {loading:.1f} s, saved in {saving:.1f} s", err=True)


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
    reading: options.Reading,
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
    from earmark.cli.spark import session, subscriptions_frame, ticking

    begun = time.perf_counter()
    with session(master, conf) as spark, ticking(spark, "publishing"):
        frame, how = subscriptions_frame(spark, subscriptions, reading, changes)
        on_error = "reject" if reject else "fail"
        if changes:
            version = earmark.spark.Snapshot.open(snapshot).apply(frame, order_by=how["order_by"], on_error=on_error)
        else:
            how |= {"index": reading.index, "shards": shards, "on_error": on_error}
            version = earmark.spark.Snapshot.publish(frame, snapshot, **how)
        rejects = version.rejects.limit(SHOWN_REJECTS).collect() if version.info.rejected else []
    info, took = version.info, time.perf_counter() - begun
    if as_json:
        figures = {"snapshot": snapshot, "version": info.number, "kind": info.kind, "subscriptions": info.subscriptions}
        click.echo(json.dumps({**figures, "rejected": info.rejected, "seconds": round(took, 3)}))
        return
    click.echo(f"{snapshot}: version {info.number}, {counted(info.subscriptions, 'subscription')}")
    if info.rejected:
        click.echo(f"{counted(info.rejected, 'row')} rejected:", err=True)
        for row in rejects:
            click.echo(printable(f"  {row['id']}: {row['reason']}"), err=True)
        if info.rejected > len(rejects):
            click.echo("  …", err=True)
    click.echo(f"published in {took:.1f} s", err=True)


@click.command(short_help="Compile the kernels ahead of time (a few minutes, once per machine).")
@click.option("--index", "indexes", multiple=True, metavar="NAME", help="Index to compile for. May be repeated.")
def warm(indexes: tuple[str, ...]) -> None:
    """Compile the kernels for this machine, so that no later call has to wait for them.

    Without --index, compile those of the indexes that `earmark match` and Matcher() use, and those of brokers, where
    the extra `overlay` is installed. They are kept in EARMARK_CACHE_DIR, or else in ~/.cache/earmark, for this user,
    this processor and this version of earmark and its libraries.

    \b
    Examples
      earmark warm
      earmark warm --index blocks --index scan
    """
    from earmark.cache import cache_folder
    from earmark.jit import JIT, note
    from earmark.warming import warm

    if not JIT:
        raise EarmarkError("there is nothing to compile with NUMBA_DISABLE_JIT=1")
    folder = cache_folder("kernels")
    if folder is None:
        raise EarmarkError("no cache folder can be written; set EARMARK_CACHE_DIR to one that only you can write")
    before, begun = note.compiled, time.perf_counter()
    warm(indexes or None)
    if not indexes and find_spec("msgspec") is not None:  # the extra `overlay`
        from earmark.overlay.warming import warm_brokers

        with note.replaced_by(None):
            warm_brokers()
    took = time.perf_counter() - begun
    if compiled := note.compiled - before:
        click.echo(f"{counted(compiled, 'kernel')} compiled in {took:.0f} s and kept in {folder}", err=True)
    else:
        click.echo(f"all kernels were compiled already, in {folder}", err=True)
