"""The command line: every command is a call or two of the API."""

from __future__ import annotations

import time
from typing import Any

import click

from earmark import __version__
from earmark.errors import EarmarkError


class _Sentences(click.Group):
    """Our errors are one sentence and exit code 2, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except EarmarkError as problem:
            raise click.UsageError(str(problem)) from None


@click.group(cls=_Sentences, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="earmark")
def main() -> None:
    """Match streams of events against standing subscriptions: all that match, or the k best."""


@main.command()
@click.option("--campaigns", default=20_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--visitors", default=2_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--seed", default=1, show_default=True, help="Another seed, another market.")
def demo(campaigns: int, visitors: int, seed: int) -> None:
    """Ad campaigns against a stream of visitors: load, match, rank, explain."""
    from earmark.matcher import Matcher
    from earmark.workload import ads

    matcher = Matcher()
    begun = time.perf_counter()
    matcher.add_many(list(ads.campaigns(campaigns, seed)))
    took = time.perf_counter() - begun
    click.echo(f"{campaigns:,} campaigns loaded in {took:.1f} s ({campaigns / took:,.0f} a second)")

    crowd = list(ads.visitors(visitors, seed))
    matcher.match_batch(crowd[:1])  # the first search compiles the kernels
    begun = time.perf_counter()
    matches = matcher.match_batch(crowd).num_rows
    took = time.perf_counter() - begun
    click.echo(
        f"{visitors:,} visitors matched in {took:.2f} s: {matches:,} matches, "
        f"{took / visitors * 1e6:,.0f} µs a visitor against all {campaigns:,} campaigns"
    )

    visitor = crowd[0]
    click.echo("\nA visitor: " + ", ".join(f"{name} {value}" for name, value in visitor.items()))
    best = matcher.top_k(visitor, 5)
    click.echo("The five best campaigns: " + ", ".join(f"{one.id} ({one.score:.2f})" for one in best))
    if best:
        click.echo(f"\nWhy the first one?\n{matcher.explain(best[0].id, visitor)}")
    for miss in matcher.near_misses(visitor, limit=1):
        click.echo(f"\nA near miss:\n{miss}")
    click.echo("\nNext: the example in README.md, and docs/language.md for everything a condition can say.")


if __name__ == "__main__":
    main()
