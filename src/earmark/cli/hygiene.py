"""`earmark audit`: subscriptions that are redundant or never match; `earmark merge`: fewer, within a budget."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.shown import one_json, printable
from earmark.errors import EarmarkError
from earmark.language.words import counted

if TYPE_CHECKING:
    from earmark.cover.merging.merge import Merged
    from earmark.cover.ranges.summary import Summary

_BUDGET = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)")
_EXTRA = "Extra traffic: unwanted events, as a share of the wanted ones. 0 needs no sample."
_ROWS = "Write the findings here, one row each (.parquet, .csv, .tsv, .jsonl)"


@click.command(short_help="Find duplicates, covered subscriptions, and clauses that never match.")
@click.argument("subscriptions")
@options.json_object("Print the findings")
@options.file("-o --output", f"{_ROWS}; the report goes to stdout as well.")
@options.number("--shown", 10, "Findings of each kind to list.", least=0)
@options.reading
def audit(subscriptions: str, as_json: bool, output: str | None, shown: int, reading: options.Reading) -> None:
    """Find subscriptions that are duplicates, are covered by others, never match, or match everything.

    Every event that matches a covered subscription matches another one too; the report names one to keep. All redundant
    subscriptions can be removed together without leaving any event unmatched. Only conditions are compared, not scores,
    weights or tags. SUBSCRIPTIONS is as for `earmark match`.

    \b
    Examples
      earmark audit ads.csv
      earmark audit ads.parquet --json
      earmark audit ads.csv -o findings.csv
    """
    from earmark.cli.files import load, write_tables

    reading.check(subscriptions, output=output)
    findings = load(subscriptions, reading)[0].audit()
    if output is not None:
        write_tables(iter([findings.to_arrow()]), output)
    click.echo(one_json(findings.to_dict()) if as_json else printable(findings.report(shown), keep="\n"))


def _share(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """Return 2% or 0.02 as a number."""
    parts = _BUDGET.fullmatch(text.strip())
    share = float(parts[1]) / (100 if parts[2] else 1) if parts else math.inf
    if not parts or not math.isfinite(share) or (share > 1 and not parts[2]):
        raise click.BadParameter(f"{text!r} is not a share of traffic; write 2% or 0.02")
    return share


@click.command(short_help="Write fewer conditions that let through at most a little more.")
@click.argument("subscriptions")
@click.option("--budget", default="2%", show_default=True, callback=_share, metavar="SHARE", help=_EXTRA)
@click.option("--sample", metavar="EVENTS", help="File of past events, as for `earmark match`, to measure traffic on.")
@options.flag("--ranges", "Write ranges of cells on a curve instead of conditions.")
@options.output
@options.json_rows
@options.number("--seed", 0, "Seed of the split of the sample.", least=0)
@options.reading
def merge(
    subscriptions: str,
    budget: float,
    sample: str | None,
    ranges: bool,
    output: str | None,
    as_json: bool,
    seed: int,
    reading: options.Reading,
) -> None:
    """Write a smaller set of conditions that matches every event the subscriptions match, and a few others.

    Rows are (id, condition, stands_for), with the ids that a condition stands for; `earmark match` reads them again.
    Scores, weights and tags are not kept. Half of the sample decides what is merged; what the result lets through is
    measured on the other half. SUBSCRIPTIONS is as for `earmark match`.

    With --ranges the rows are (first, last), ranges of Hilbert's curve through a grid of cells. Only Parquet carries
    the grid; earmark.cover.RangeSummary reads it, and says which events are wanted.

    \b
    Examples
      earmark merge ads.csv --budget 2% --sample visitors.parquet -o fewer.csv
      earmark merge ads.csv --budget 0
      earmark merge ads.parquet --sample visitors.parquet --ranges -o ranges.parquet --json
    """
    from earmark.cli.files import load, write_tables
    from earmark.cli.search import sampled
    from earmark.cover.merging.merge import merge_segment
    from earmark.cover.ranges.summary import summarize_segment

    if sample is None and ranges:
        raise EarmarkError("the traffic of ranges is measured on events: name a file of past ones with --sample")
    if sample is None and budget > 0:
        raise EarmarkError("a budget is measured on events: name a file of past ones with --sample, or say --budget 0")
    reading.check(subscriptions, *([sample] if sample else []), output=output)
    matcher, loading = load(subscriptions, reading)
    view, events = sampled(matcher, reading.source(sample) if sample else None, seed)
    begun = time.perf_counter()
    result: Merged | Summary
    if ranges:
        result = summarize_segment(view, events, budget, seed=seed)
    else:
        result = merge_segment(view, events, budget, seed=seed, progress=_progress())
    write_tables(iter([result.to_arrow()]), output, as_json)
    if as_json and output is not None:
        seconds = {"load_seconds": loading, "merge_seconds": time.perf_counter() - begun}
        rounded = {name: round(value, 3) for name, value in seconds.items()}
        click.echo(one_json({**_figures(result), **rounded, "output": output}))
    elif not as_json:
        click.echo("\n".join(_report(result)), err=output is None)


def _progress() -> Callable[[int], None]:
    """Return a function that says on a terminal, at most once per second, how many conditions are left."""
    from earmark.progress import is_shown

    shown, last = is_shown(), time.monotonic()

    def progress(left: int) -> None:
        nonlocal last
        if shown and time.monotonic() - last > 1:
            click.echo(f"merging: {left:,} conditions left", err=True)
            last = time.monotonic()

    return progress


def _figures(result: Merged | Summary) -> dict[str, Any]:
    """Return the result in numbers, for programs."""
    from earmark.cover.ranges.summary import Summary

    held, decided = result.held_back, result.decided
    return {
        **{"subscriptions": len(result.view), "before": result.before, "after": len(result), "budget": result.budget},
        **{"events": held.events, "wanted": held.wanted, "extra": held.extra, "extra_traffic": _finite(held.share)},
        "false_positives": held.false_positives,
        **{"decided_on": decided.events, "decided_extra_traffic": _finite(decided.share)},
        **({"space": result.described()} if isinstance(result, Summary) else {"never": len(result.never)}),
    }


def _report(result: Merged | Summary) -> Iterator[str]:
    """Yield the lines of a report, for people."""
    from earmark.cover.ranges.summary import Summary

    held, of_ranges = result.held_back, isinstance(result, Summary)
    after = counted(len(result), "range" if of_ranges else "condition")
    yield f"{counted(len(result.view), 'subscription')} -> {after}"
    if isinstance(result, Summary):
        names = ", ".join(result.view.schema.names[attr] for attr in result.space.attr.tolist())
        yield f"  over {names}; {counted(result.before, 'range')} before gaps were closed"
    elif len(result.never):
        yield f"  {len(result.never):,} never match and were left out"
    if not held.events:
        none = "none by construction; there was no sample to measure on"
        yield f"  extra traffic: {'not measured: no sample' if of_ranges else none}"
    elif not held.wanted:
        yield f"  extra traffic: none of {held.events:,} held-back events is wanted; {held.extra:,} are let through"
    else:
        measured = f"measured on {held.events:,} held-back events ({held.wanted:,} wanted, {held.extra:,} extra)"
        yield f"  extra traffic: {held.share:.2%} {measured}; budget {100 * result.budget:.4g}%"
    if of_ranges and result.before == len(result) and held.share > result.budget:
        yield "  the cells alone exceed the budget, so no gap was closed"


def _finite(share: float) -> float | None:
    return share if math.isfinite(share) else None
