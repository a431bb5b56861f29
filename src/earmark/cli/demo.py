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

if TYPE_CHECKING:
    from earmark.matcher import Matcher

Visitor = dict[str, Any]
Figures = dict[str, Any]


@click.command(short_help="See it at work: ad campaigns against visitors (a minute).")
@click.option(
    "--campaigns",
    default=200_000,
    show_default=True,
    type=click.IntRange(1, 5_000_000),
    metavar="N",
    help="How many to load.",
)
@click.option(
    "--visitors",
    default=5_000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="How many come by.",
)
@click.option("--seed", default=1, show_default=True, metavar="N", help="Another seed, another market.")
@click.option("--json", "as_json", is_flag=True, help="The figures as one JSON object; the story goes to stderr.")
@click.option("--spark", "on_spark", is_flag=True, help="On Spark: publish, a batch, a stream (three minutes).")
def demo(campaigns: int, visitors: int, seed: int, as_json: bool, on_spark: bool) -> None:
    """Ad campaigns against a stream of visitors: load, match, rank, explain.

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
            from earmark.cli.demo_spark import demo_spark

            demo_spark(campaigns, visitors, seed, figures)
        else:
            with _kernels_compiling():
                matcher = _load(campaigns, seed, figures)
            _stream(matcher, visitors, seed, figures)
            _one(matcher, seed)
            _next()
        figures["seconds"] = round(time.perf_counter() - begun, 3)
        click.echo(f"\n{figures['seconds']:.0f} s in all.", err=True)
    if as_json:
        click.echo(json.dumps(figures))


def _title(text: str) -> None:
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
    click.echo(f"  loaded in {took:.1f} s ({count / took:,.0f} a second), {size:,.1f} MB")
    figures |= {"load_seconds": round(took, 3), "megabytes": round(size, 1)}
    return matcher


def _stream(matcher: Matcher, count: int, seed: int, figures: Figures) -> None:
    from earmark.progress import track
    from earmark.workload.ads import visitors

    crowd = list(visitors(count, seed))
    matcher.match_many(crowd[:1])  # whatever is still to be compiled, so that the figures show the search
    matcher.top_k_many(crowd[:1], 5)
    _title(f"{count:,} visitors come by")
    searches: list[tuple[str, str, Callable[[Any], Any]]] = [
        ("match", "all matches", matcher.match_many),
        ("top_k", "the five best", lambda group: matcher.top_k_many(group, 5)),
    ]
    for name, what, search in searches:
        begun = time.perf_counter()
        groups = [crowd[start : start + 512] for start in range(0, count, 512)]
        found = sum(search(group).num_rows for group in track(groups, len(groups), what))
        took = time.perf_counter() - begun
        click.echo(
            f"  {what + ':':<15}{found:>12,} found in {took:4.1f} s   "
            f"{found / took:>12,.0f} matches a second {count / took:>8,.0f} visitors a second"
        )
        figures[name] = {"found": found, "seconds": round(took, 3)}


def _one(matcher: Matcher, seed: int) -> None:
    from earmark.workload.ads import visitors

    visitor, best = _somebody(matcher, visitors(100, seed))
    _title("One of them")
    click.echo("  " + ", ".join(f"{name} {_plain(value)}" for name, value in visitor.items()))
    _title("The five best campaigns for this visitor")
    for place, one in enumerate(best, 1):
        click.echo(f"  {place}. {one.id:<10} {one.score:5.2f}   {matcher.get(one.id).condition}")
    if best:
        explanation = matcher.explain(best[0].id, visitor)
        _title(f"Why {best[0].id}?")
        click.echo(f"  it {explanation.verdict}")
        for line in explanation.lines():
            click.echo(line)
    for miss in matcher.near_misses(visitor, limit=1):
        _title("A near miss")
        click.echo(f"  {miss.id} wants {matcher.get(miss.id).condition}")
        for constraint in miss.failing:
            click.echo(f"  {constraint}")


def _somebody(matcher: Matcher, crowd: Iterator[Visitor]) -> tuple[Visitor, list[Any]]:
    """The first visitor for whom there is a match, or just the first."""
    first = None
    for visitor in crowd:
        best = matcher.top_k(visitor, 5)
        if best:
            return visitor, best
        first = first or visitor
    return first or {}, []


def _plain(value: Any) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else str(value)


def _next() -> None:
    _title("What to try next")
    click.echo(NEXT)


NEXT = """\
  with files     earmark generate w2 data
                 earmark match data/subscriptions.parquet data/events.parquet -o hits.parquet
                 earmark match --help
  on Spark       earmark demo --spark
  in Python      import earmark; m = earmark.Matcher(); m.add("ad-1", "age > 30"); m.match({"age": 31})
  to read        README.md, docs/cli.md, docs/language.md (everything that a condition can say)"""


# --- kernels -------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _kernels_compiling() -> Iterator[None]:
    """Compile the kernels on another core meanwhile, when this machine has none yet; they are ready at the end."""
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
    """Whether kernels lie in the cache, or there is no use in putting them there."""
    from pathlib import Path

    from earmark.jit import JIT
    from earmark.segment.evaluate import score_matches

    if not JIT:
        return True
    folder = score_matches._cache.cache_path  # type: ignore[attr-defined]
    return folder is None or any(Path(folder).glob("*score_matches*"))
