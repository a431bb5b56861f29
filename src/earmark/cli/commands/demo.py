"""`earmark demo`: ad campaigns against a stream of visitors."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options

if TYPE_CHECKING:
    from earmark.matcher import Matcher

Figures = dict[str, Any]


@click.command(short_help="See earmark at work: ad campaigns against visitors (a minute).")
@options.number("--campaigns", 200_000, "Number of campaigns.", most=5_000_000)
@options.number("--visitors", 5_000, "Number of visitors.", most=1_000_000)
@click.option("--seed", default=1, show_default=True, metavar="N", help="Seed of the market.")
@options.flag("--json", "Print the figures as one JSON object; the story goes to stderr.", "as_json")
@options.flag("--spark", "Run on Spark: publish, a batch, a stream (three minutes).", "on_spark")
def demo(campaigns: int, visitors: int, seed: int, as_json: bool, on_spark: bool) -> None:
    """Match ad campaigns with a stream of visitors: load, match, rank, explain.

    Takes about a minute the first time, when kernels are compiled for this machine. The same seed shows the same
    market; only the timings differ.

    \b
    Example
      earmark demo --campaigns 20000
    """
    figures: Figures = {"campaigns": campaigns, "visitors": visitors}
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        begun = time.perf_counter()
        if on_spark:
            from earmark.cli.commands.demo_spark import demo_spark

            demo_spark(campaigns, visitors, seed, figures)
        else:
            with _kernels_compiling():
                matcher = _load(campaigns, seed, figures)
            _stream(matcher, visitors, seed, figures)
            _show_visitor(matcher, seed)
            title("What to try next")
            click.echo(NEXT)
        figures["seconds"] = round(time.perf_counter() - begun, 3)
        click.echo(f"\n{figures['seconds']:.0f} s in all.", err=True)
    if as_json:
        click.echo(json.dumps(figures))


def title(text: str) -> None:
    """Print the title of a chapter."""
    click.secho(f"\n{text}", bold=True)


def _load(count: int, seed: int, figures: Figures) -> Matcher:
    from earmark.matcher import Matcher
    from earmark.progress import track
    from earmark.workload.ads import Campaigns

    click.secho(f"{count:,} ad campaigns, each a SQL condition with weights and a bid", bold=True)
    for campaign in Campaigns(min(count, 3), seed):
        click.echo(f"  {campaign['id']}  {campaign['condition']}")
    market = list(track(Campaigns(count, seed), count, "  inventing"))
    matcher = Matcher()
    begun = time.perf_counter()
    matcher.add_many(market)
    took = time.perf_counter() - begun
    stats = matcher.stats()
    size = (stats["table_bytes"] + stats["asked_bytes"]) / 2**20
    click.echo(f"  loaded in {took:.1f} s ({count / took:,.0f} per second), {size:,.1f} MB")
    figures |= {"load_seconds": round(took, 3), "megabytes": round(size, 1)}
    return matcher


def _stream(matcher: Matcher, count: int, seed: int, figures: Figures) -> None:
    from earmark.progress import track
    from earmark.workload.ads import visitors

    crowd = list(visitors(count, seed))
    matcher.match_many(crowd[:1])  # whatever is still to be compiled, so that the figures show the search
    matcher.top_k_many(crowd[:1], 5)
    title(f"{count:,} visitors come by")
    searches: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("match", "all matches", matcher.match_many),
        ("top_k", "the five best", lambda group: matcher.top_k_many(group, 5)),
    ]
    for name, what, search in searches:
        begun = time.perf_counter()
        groups = [crowd[start : start + 512] for start in range(0, count, 512)]
        results = sum(search(group).num_rows for group in track(groups, len(groups), what))
        took = time.perf_counter() - begun
        rates = f"{results / took:>11,.0f} matches per second {count / took:>7,.0f} visitors per second"
        click.echo(f"  {what + ':':<15}{results:>12,} found in {took:4.1f} s {rates}")
        figures[name] = {"found": results, "seconds": round(took, 3)}


def _show_visitor(matcher: Matcher, seed: int) -> None:
    """Show the first visitor for whom there is a match, or else the first."""
    from earmark.workload.ads import visitors

    crowd = list(visitors(100, seed))
    visitor = next((visitor for visitor in crowd if matcher.top_k(visitor, 1)), crowd[0])
    best = matcher.top_k(visitor, 5)
    title("One of them")
    words = {True: "yes", False: "no"}
    values = {name: words[value] if isinstance(value, bool) else value for name, value in visitor.items()}
    click.echo("  " + ", ".join(f"{name} {value}" for name, value in values.items()))
    title("The five best campaigns for this visitor")
    for place, ranked in enumerate(best, 1):
        click.echo(f"  {place}. {ranked.id:<10} {ranked.score:5.2f}   {matcher[ranked.id].condition}")
    if best:
        explanation = matcher.explain(best[0].id, visitor)
        title(f"Why {best[0].id}?")
        click.echo("\n".join([f"  it {explanation.verdict}", *explanation.lines()]))
    for miss in matcher.near_misses(visitor, limit=1):
        title("A near miss")
        click.echo("\n".join([f"  {miss.id} wants {matcher[miss.id].condition}", *map("  {}".format, miss.failing)]))


NEXT = """\
  with files     earmark generate w2 data
                 earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet
                 earmark match --help
  on Spark       earmark demo --spark
  in Python      import earmark; m = earmark.Matcher(); m.add("ad-1", "age > 30"); m.match({"age": 31})
  to read        README.md, docs/cli.md, docs/language.md (the whole language of conditions)"""


@contextlib.contextmanager
def _kernels_compiling() -> Iterator[None]:
    """Compile the kernels on another core meanwhile, if the cache has none; they are ready at the end."""
    if _compiled():
        yield
        return
    from earmark.matcher import DEFAULT_INDEX

    click.echo("(first run: kernels are being compiled for this machine meanwhile; this happens once)\n", err=True)
    command = [sys.executable, "-c", f"from earmark.warming import warm_search; warm_search({DEFAULT_INDEX!r})"]
    helper = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        helper.wait()
    finally:
        helper.kill()
        helper.wait()


def _compiled() -> bool:
    """Return whether the cache has kernels, or there is no cache."""
    from pathlib import Path

    from earmark.jit import JIT
    from earmark.segment.evaluate import score_matches

    if not JIT:
        return True
    folder = score_matches._cache.cache_path  # type: ignore[attr-defined]
    return folder is None or any(Path(folder).glob("*score_matches*"))
