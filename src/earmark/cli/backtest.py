"""`earmark backtest`: how often would these subscriptions have matched past events?"""

from __future__ import annotations

from typing import Any

import click

from earmark.cli import options
from earmark.errors import EarmarkError


@click.command(short_help="How often each subscription would have matched past events.")
@click.argument("sources", nargs=-1, required=True, metavar="[SUBSCRIPTIONS] EVENTS")
@click.option("--condition", metavar="SQL", help="One condition, instead of a file of subscriptions.")
@click.option(
    "--sample", default=3, show_default=True, type=click.IntRange(0), metavar="N", help="Events to show of each."
)
@options.output
@options.json_rows
@options.event_id
@options.rejects
@options.index()
@options.reading
def backtest(sources: tuple[str, ...], condition: str | None, **given: Any) -> None:
    """How often each subscription would have matched: rows of (subscription, matches, share, sample).

    SUBSCRIPTIONS and EVENTS are as for `earmark match`; with --condition there is no file of subscriptions. The share
    is that of all events, and the sample is the first events that match. Events are read piece by piece, so any size
    will do; earmark.spark.backtest does the same on Spark.

    \b
    Examples
      earmark backtest ads.csv visitors.parquet
      earmark backtest --condition "age > 30 AND city = 'Oslo'" visitors.parquet --event-id who
      earmark backtest candidates.csv visitors.parquet --sample 0 -o shares.parquet
    """
    wanted = 1 if condition is not None else 2
    if len(sources) != wanted:
        named = "EVENTS alone, since --condition is given" if wanted == 1 else "SUBSCRIPTIONS and EVENTS"
        raise EarmarkError(f"backtest: expected {named}, got {len(sources)} file{'s' * (len(sources) > 1)}")
    from earmark.cli.tally import run

    run(sources[0] if condition is None else None, condition, sources[-1], **given)
