"""`earmark demo`: ad campaigns against a stream of visitors."""

from __future__ import annotations

import time

import click

from earmark.matcher import Matcher
from earmark.workload import ads


@click.command()
@click.option("--campaigns", default=200_000, show_default=True, type=click.IntRange(1, 5_000_000))
@click.option("--visitors", default=5_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--seed", default=1, show_default=True, help="Another seed, another market.")
def demo(campaigns: int, visitors: int, seed: int) -> None:
    """Ad campaigns against a stream of visitors: load, match, rank, explain."""
    click.echo(f"{campaigns:,} ad campaigns, each a SQL condition such as")
    click.echo(f"  {next(ads.campaigns(1, seed))['condition']}")
    matcher = Matcher()
    begun = time.perf_counter()
    matcher.add_many(ads.campaigns(campaigns, seed))
    took = time.perf_counter() - begun
    click.echo(f"loaded in {took:.1f} s, {campaigns / took:,.0f} a second, into {_megabytes(matcher)} MB\n")
    crowd = list(ads.visitors(visitors, seed))
    _stream(matcher, crowd)
    _one(matcher, crowd[0])
    click.echo(
        "\nNext\n"
        "  earmark generate w2 data && earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet\n"
        "  README.md for the library, docs/language.md for everything a condition can say"
    )


def _megabytes(matcher: Matcher) -> int:
    stats = matcher.stats()
    return int(stats["table_bytes"] + stats["asked_bytes"]) >> 20


def _stream(matcher: Matcher, crowd: list[dict[str, object]]) -> None:
    matcher.top_k_batch(crowd[:1], 5)  # the first search compiles the kernels, and says so
    begun = time.perf_counter()
    shown = matcher.top_k_batch(crowd, 5).num_rows
    took = time.perf_counter() - begun
    pairs = len(crowd) * len(matcher)
    click.echo(
        f"{len(crowd):,} visitors, the five best campaigns for each: {shown:,} results in {took:.1f} s, "
        f"{len(crowd) / took:,.0f} visitors a second ({pairs / took / 1e9:.1f} billion pairs looked at a second)\n"
    )


def _one(matcher: Matcher, visitor: dict[str, object]) -> None:
    click.echo("One visitor\n  " + ", ".join(f"{name} {value}" for name, value in visitor.items()))
    best = matcher.top_k(visitor, 5)
    click.echo("The five best campaigns\n  " + "   ".join(f"{one.id} {one.score:.2f}" for one in best))
    if best:
        click.echo(f"Why the first?\n{matcher.explain(best[0].id, visitor)}")
    for miss in matcher.near_misses(visitor, limit=1):
        click.echo(f"A near miss\n  {miss}")
