"""`earmark save`: parse subscriptions once, and keep them with their index in a folder."""

from __future__ import annotations

import json
import os
import time

import click

from earmark.cli import options
from earmark.cli.reading import Reading
from earmark.errors import EarmarkError


@click.command(short_help="Write subscriptions and their index as a folder that loads at once.")
@click.argument("subscriptions")
@click.argument("folder")
@options.json_object("Print the outcome")
@options.index()
@options.reading
def save(subscriptions: str, folder: str, as_json: bool, reading: Reading) -> None:
    """Parse SUBSCRIPTIONS, build their index, and write both to FOLDER.

    Every command that takes SUBSCRIPTIONS takes such a folder instead, and so does Matcher.load: nothing is parsed or
    built again. A folder that was saved before is replaced; any other folder or file is left alone. SUBSCRIPTIONS is as
    for `earmark match`.

    \b
    Examples
      earmark save ads.csv ads.earmark
      earmark match ads.earmark visitors.parquet -o hits.parquet
      zcat ads.csv.gz | earmark save - ads.earmark --format csv --index blocks
    """
    from pathlib import Path

    from earmark.book.folder import refuse_foreign
    from earmark.cli.load import load
    from earmark.language.words import counted

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
