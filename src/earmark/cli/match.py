"""`earmark match`, `top-k` and `explain`: subscriptions and events from files."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from earmark.cli.session import on_spark
from earmark.errors import EarmarkError

F = TypeVar("F", bound=Callable[..., Any])


def _pairs(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """NAME=VALUE options as a dict."""
    found: dict[str, str] = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{value!r} is not of the form {param.metavar}")
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice")
        found[name] = rest
    return found


def _weights(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, float]:
    found = {}
    for name, text in _pairs(ctx, param, values).items():
        try:
            number = float(text)
        except ValueError:
            raise click.BadParameter(f"the weight of {name!r} is {text!r}, not a number") from None
        if not math.isfinite(number) or number < 0:
            raise click.BadParameter(f"the weight of {name!r} is {text}; weights are finite and not negative")
        found[name] = number
    return found


def _sources(command: F) -> F:
    """The arguments that all three commands share."""
    for option in (
        click.option("--zone", help="Time zone of timestamps that name none.  [default: UTC]"),
        click.option(
            "--attribute",
            "attributes",
            multiple=True,
            callback=_pairs,
            metavar="NAME=TYPE",
            help="Declare a type: integer, float, boolean, string, date, timestamp or decimal(p,s). May be repeated; "
            "other types are learned.",
        ),
        click.argument("subscriptions"),
    ):
        command = option(command)
    return command


def _results(command: F) -> F:
    """The options of the commands that write results."""
    for option in (
        click.option(
            "--json", "as_json", is_flag=True, help="JSON lines on stdout; with -o, a summary as one JSON object."
        ),
        click.option(
            "--scope",
            multiple=True,
            callback=_pairs,
            metavar="TAG=VALUE",
            help="Only subscriptions with this tag. May be repeated: all must hold.",
        ),
        click.option("--event-id", metavar="COLUMN", help="Name events by this column instead of by number, from 0."),
        click.option(
            "-o", "--output", metavar="FILE", help="Write results here (.parquet, .csv, .jsonl) instead of to stdout."
        ),
        click.argument("events"),
    ):
        command = option(command)
    engine = click.option(
        "--engine",
        default="local",
        show_default=True,
        type=click.Choice(["local", "spark"]),
        help="Who searches: this process, or Spark's workers.",
    )
    return engine(on_spark(command))


def _not_on_spark(options: dict[str, Any]) -> dict[str, Any]:
    """The options without those of the other engine."""
    given = click.get_current_context().get_parameter_source
    for name in ("master", "conf"):
        if given(name) is ParameterSource.COMMANDLINE:
            raise EarmarkError(f"--{name} is for --engine spark")
    return {name: value for name, value in options.items() if name not in ("master", "conf")}


@click.command(short_help="All subscriptions that each event matches.")
@_sources
@_results
def match(scope: dict[str, str], engine: str, **options: Any) -> None:
    """All subscriptions that each event matches, as rows of (event, subscription, score).

    SUBSCRIPTIONS is a file with columns id and condition (and, if you like, score, weights, tags), or with
    ready-made bounds (a column ranges, or pairs such as age_lo and age_hi), or a folder that Matcher.save
    wrote. EVENTS is a file with one column an attribute. It is read piece by piece, so any size will do.

    With --engine spark, SUBSCRIPTIONS may also be a snapshot that `earmark publish` wrote, EVENTS is a Parquet file
    or a folder of them, and -o may name a new folder (a name without a suffix), which the workers fill.

    \b
    Examples
      earmark match ads.csv visitors.parquet -o hits.parquet
      earmark match ads.snapshot visitors.parquet --engine spark --master 'local[4]' -o hits
      earmark match ads.csv visitors.jsonl --scope tenant=acme --event-id visitor
      earmark match ads.csv visitors.csv --attribute 'price=decimal(9,2)' --json
    """
    if engine == "spark":
        from earmark.cli.engine import run_on_spark

        run_on_spark(scope=scope or None, **options)
        return
    from earmark.cli.run import run

    run(lambda m, rows: m.match_batch(rows, scope=scope or None), **_not_on_spark(options))


@click.command("top-k", short_help="The k best subscriptions for each event.")
@_sources
@_results
@click.option("-k", default=10, show_default=True, type=click.IntRange(1), help="How many results an event.")
@click.option(
    "--mode",
    default="exact",
    show_default=True,
    type=click.Choice(["exact", "relaxed"]),
    help="exact ranks what matches; relaxed ranks what holds in part.",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    callback=_weights,
    metavar="NAME=NUMBER",
    help="Weight of an attribute, for all events. May be repeated; others weigh 1.",
)
def top_k(k: int, mode: str, weights: dict[str, float], scope: dict[str, str], engine: str, **options: Any) -> None:
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

        run_on_spark(k=k, mode=mode, weights=weights or None, scope=scope or None, **options)
        return
    from earmark.cli.run import run

    def search(m: Any, rows: Any) -> Any:
        return m.top_k_batch(rows, k, mode=mode, weights=weights or None, scope=scope or None)

    run(search, weights=weights, **_not_on_spark(options))


@click.command(short_help="Why a subscription matches an event, or not.")
@_sources
@click.option("--json", "as_json", is_flag=True, help="The explanation as one JSON object.")
@click.argument("id")
@click.argument("event")
def explain(subscriptions: str, id: str, event: str, as_json: bool, attributes: dict[str, str], zone: str) -> int:
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
        raise EarmarkError(f"the event {event[:100]!r} is not a JSON object") from None
    if not isinstance(row, dict):
        raise EarmarkError(f"the event is a JSON object such as '{{\"age\": 27}}'; got {event[:100]!r}")
    found, text = explained(subscriptions, id, row, as_json, attributes, zone)
    click.echo(text)
    return 0 if found else 1
