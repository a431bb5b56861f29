"""`earmark match`, `top-k` and `explain`: subscriptions and events from files."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from typing import Any

import click
from click.core import ParameterSource

from earmark.cli import options
from earmark.cli.reading import Reading
from earmark.errors import EarmarkError

EXAMPLE = """'{"age": 27}'"""
_files = options.together(click.argument("subscriptions"), click.argument("events"))
_search = options.together(
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
        help="Search in this process, or on Spark's workers.",
    ),
    options.on_spark,
)


def _run(asked: dict[str, Any], engine: str, given: dict[str, Any]) -> None:
    """Search with the chosen engine; `asked` are the arguments of the search itself."""
    asked = {name: value or None for name, value in asked.items()}
    if engine == "spark":
        if given.pop("rejects").is_given:
            raise EarmarkError(
                "--on-error and --reject are for the local engine; --engine spark does not have them yet"
            )
        from earmark.cli.spark.engine import run_on_spark

        run_on_spark(**asked, **given)
        return
    for name in ("master", "conf"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise EarmarkError(f"--{name} is for --engine spark")
        del given[name]
    from earmark.cli.run import run

    def search(m: Any, rows: Any, **unread: Any) -> Any:
        find = m.top_k_many if "k" in asked else m.match_many
        return find(rows, **asked, **unread)

    run(search, weights=asked.get("weights") or (), **given)


@click.command(short_help="Find all subscriptions that each event matches.")
@_files
@_search
def match(scope: dict[str, str], engine: str, **given: Any) -> None:
    """Find all subscriptions that each event matches, as rows of (event, subscription, score).

    SUBSCRIPTIONS is a file with columns id and condition (and optionally score, weights, tags), or with ready-made
    bounds (a column ranges, or pairs such as age_lo and age_hi), or a folder that `earmark save` wrote. EVENTS is a
    file of any size with one column per attribute. One of the two may be -, which is standard input.

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
    _run({"scope": scope}, engine, given)


@click.command("top-k", short_help="Find the k best subscriptions for each event.")
@_files
@options.number("-k", 10, "Results per event.")
@options.mode
@options.weights
@_search
def top_k(k: int, mode: str, weights: dict[str, float], scope: dict[str, str], engine: str, **given: Any) -> None:
    """Find the k best subscriptions for each event, best first, as rows of (event, subscription, score).

    A score is the subscription's own score plus, for each attribute in its condition, its weight times the event's
    weight. Of equal scores, the subscription that was added first wins. SUBSCRIPTIONS and EVENTS are as for
    `earmark match`.

    \b
    Examples
      earmark top-k ads.csv visitors.parquet -k 5 -o best.csv
      earmark top-k ads.csv visitors.jsonl --mode relaxed --weight age=2 --json
    """
    _run({"k": k, "mode": mode, "weights": weights, "scope": scope}, engine, given)


@click.command(short_help="Explain why a subscription matches an event, or not.")
@click.argument("subscriptions")
@click.argument("id")
@click.argument("event")
@options.json_object("Print the explanation")
@options.index(shown="none, since only one subscription is evaluated")
@options.reading
def explain(subscriptions: str, id: str, event: str, as_json: bool, reading: Reading) -> int:
    """Explain why subscription ID matches EVENT, or not: each constraint, what it expected, what it got.

    EVENT is a JSON object; the exit code is 0 when it matches, 1 when it does not. SUBSCRIPTIONS is as for
    `earmark match`.

    \b
    Examples
      earmark explain ads.csv ad-17 '{"age": 27, "city": "Oslo"}'
      earmark explain ads.csv ad-17 '{"age": {"lo": 20, "hi": 30}}' --json
    """
    from earmark.cli.load import load
    from earmark.tabular.write import plain_json

    try:
        row = json.loads(event)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise EarmarkError(f"EVENT: expected a JSON object such as {EXAMPLE}, got {event[:100]!r}")
    reading.check(subscriptions)
    # One subscription is evaluated, so no index is built unless asked for.
    matcher = load(subscriptions, replace(reading, index=reading.index or options.NO_INDEX)).matcher
    number = int(id) if re.fullmatch(r"-?\d{1,19}", id) else None
    key: Any = number if id not in matcher and number in matcher else id
    explanation = matcher.explain(key, row)
    click.echo(json.dumps(plain_json(asdict(explanation)), default=str) if as_json else str(explanation))
    return 0 if explanation.matched else 1
