"""`earmark backtest`: how often would these subscriptions have matched past events?"""

from __future__ import annotations

from typing import Any

import click

from earmark.cli import options
from earmark.errors import EarmarkError


@click.command(short_help="Count how often each subscription would have matched past events.")
@click.argument("sources", nargs=-1, required=True, metavar="[SUBSCRIPTIONS] EVENTS")
@click.option("--condition", metavar="SQL", help="One condition, instead of a file of subscriptions.")
@options.number("--sample", 3, "Matching events to show per subscription.", least=0)
@options.output
@options.json_rows
@options.event_id
@options.rejects
@options.index()
@options.reading
def backtest(sources: tuple[str, ...], condition: str | None, **given: Any) -> None:
    """Count how often each subscription would have matched: rows of (subscription, matches, share, sample).

    SUBSCRIPTIONS and EVENTS are as for `earmark match`; with --condition there is no file of subscriptions. The share
    is of all events, and the sample is the first events that match. Events are read in batches, so the file may be of
    any size; earmark.spark.backtest does the same on Spark.

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
    from earmark.cli.run import run
    from earmark.matcher import Matcher

    subscriptions = sources[0] if condition is None else None
    run(Matcher.match_many, subscriptions=subscriptions, condition=condition or "", events=sources[-1], **given)
