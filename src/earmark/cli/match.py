"""`earmark match`, `top-k` and `explain`: subscriptions and events from files."""

from __future__ import annotations

import json
from typing import Any

import click
from click.core import ParameterSource

from earmark.cli import options
from earmark.cli.reading import Reading
from earmark.errors import EarmarkError

EXAMPLE = """'{"age": 27}'"""
_files = options.together(click.argument("subscriptions"), click.argument("events"))
_results = options.together(
    options.output,
    options.json_rows,
    options.event_id,
    options.scope,
    options.rejects,
    options.index(),
    options.reading,
    click.option(
        "--engine",
        default="local",
        show_default=True,
        type=click.Choice(["local", "spark"]),
        help="Who searches: this process, or Spark's workers.",
    ),
    options.on_spark,
)


def _not_on_spark(given: dict[str, Any]) -> dict[str, Any]:
    """The options without those of the other engine."""
    source = click.get_current_context().get_parameter_source
    for name in ("master", "conf"):
        if source(name) is ParameterSource.COMMANDLINE:
            raise EarmarkError(f"--{name} is for --engine spark")
    return {name: value for name, value in given.items() if name not in ("master", "conf")}


def _on_spark(given: dict[str, Any]) -> dict[str, Any]:
    """The options without those that Spark does not have yet."""
    if given["rejects"].is_given:
        raise EarmarkError("--on-error and --reject are for the local engine; --engine spark does not have them yet")
    return {name: value for name, value in given.items() if name != "rejects"}


@click.command(short_help="All subscriptions that each event matches.")
@_files
@_results
def match(scope: dict[str, str], engine: str, **given: Any) -> None:
    """All subscriptions that each event matches, as rows of (event, subscription, score).

    SUBSCRIPTIONS is a file with columns id and condition (and, if you like, score, weights, tags), or with
    ready-made bounds (a column ranges, or pairs such as age_lo and age_hi), or a folder that `earmark save`
    wrote. EVENTS is a file with one column per attribute. It is read piece by piece, so any size will do.
    One of the two may be -, which is standard input.

    With --engine spark, SUBSCRIPTIONS may also be a snapshot that `earmark publish` wrote, EVENTS is a Parquet file
    or a folder of them, and -o may name a new folder (a name without a suffix), which the workers fill.

    \b
    Examples
      earmark match ads.csv visitors.parquet -o hits.parquet
      earmark match ads.snapshot visitors.parquet --engine spark --master 'local[4]' -o hits
      earmark match ads.csv visitors.jsonl --scope tenant=acme --event-id visitor
      earmark match ads.csv visitors.csv.gz --attribute 'price=decimal(9,2)' --json
      tail -1000 visitors.jsonl | earmark match ads.csv - --format jsonl
    """
    if engine == "spark":
        from earmark.cli.engine import run_on_spark

        run_on_spark(scope=scope or None, **_on_spark(given))
        return
    from earmark.cli.run import run

    def search(m: Any, rows: Any, **unread: Any) -> Any:
        return m.match_many(rows, scope=scope or None, **unread)

    run(search, **_not_on_spark(given))


@click.command("top-k", short_help="The k best subscriptions for each event.")
@_files
@click.option("-k", default=10, show_default=True, type=click.IntRange(1), metavar="N", help="Results per event.")
@options.mode
@options.weights
@_results
def top_k(k: int, mode: str, weights: dict[str, float], scope: dict[str, str], engine: str, **given: Any) -> None:
    """The k best subscriptions for each event, best first, as rows of (event, subscription, score).

    A score is the subscription's own score plus, for each attribute it asks about, its weight times the event's
    weight. Ties go to the subscription that came first. SUBSCRIPTIONS and EVENTS are as for `earmark match`.

    \b
    Examples
      earmark top-k ads.csv visitors.parquet -k 5 -o best.csv
      earmark top-k ads.csv visitors.jsonl --mode relaxed --weight age=2 --json
    """
    if engine == "spark":
        from earmark.cli.engine import run_on_spark

        run_on_spark(k=k, mode=mode, weights=weights or None, scope=scope or None, **_on_spark(given))
        return
    from earmark.cli.run import run

    def search(m: Any, rows: Any, **unread: Any) -> Any:
        return m.top_k_many(rows, k, mode=mode, weights=weights or None, scope=scope or None, **unread)

    run(search, weights=weights, **_not_on_spark(given))


@click.command(short_help="Why a subscription matches an event, or not.")
@click.argument("subscriptions")
@click.argument("id")
@click.argument("event")
@click.option("--json", "as_json", is_flag=True, help="The explanation as one JSON object.")
@options.index(shown="none, since one subscription is looked at")
@options.reading
def explain(subscriptions: str, id: str, event: str, as_json: bool, reading: Reading) -> int:
    """Why subscription ID matches EVENT, or not: each constraint, what it asked, what it got.

    EVENT is a JSON object; the exit code is 0 when it matches, 1 when it does not. SUBSCRIPTIONS is as for
    `earmark match`.

    \b
    Examples
      earmark explain ads.csv ad-17 '{"age": 27, "city": "Oslo"}'
      earmark explain ads.csv ad-17 '{"age": {"lo": 20, "hi": 30}}' --json
    """
    from earmark.cli.run import explained

    try:
        row = json.loads(event)
    except (ValueError, RecursionError):
        raise EarmarkError(f"EVENT: expected a JSON object such as {EXAMPLE}, got {event[:100]!r}") from None
    if not isinstance(row, dict):
        raise EarmarkError(f"EVENT: expected a JSON object such as {EXAMPLE}, got {event[:100]!r}")
    matched, text = explained(subscriptions, id, row, as_json, reading)
    click.echo(text)
    return 0 if matched else 1
