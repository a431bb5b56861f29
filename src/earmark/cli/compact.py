"""`earmark compact`: fewer conditions that take every event the subscriptions take, within a budget."""

from __future__ import annotations

import json
import math
import re
import time
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.cli.reading import Reading
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.cover.merging import Merged
    from earmark.cover.summary import Summary

_BUDGET = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(%?)")


def _share(ctx: click.Context, param: click.Parameter, text: str) -> float:
    """2% or 0.02 as a share."""
    found = _BUDGET.fullmatch(text.strip())
    share = float(found[1]) / (100 if found[2] else 1) if found else math.inf
    if not found or not math.isfinite(share) or (share > 1 and not found[2]):
        raise click.BadParameter(f"{text!r} is not a share of traffic; write 2% or 0.02")
    return share


@click.command(short_help="Fewer conditions that let through at most a little more.")
@click.argument("subscriptions")
@click.option(
    "--budget",
    default="2%",
    show_default=True,
    callback=_share,
    metavar="SHARE",
    help="Extra traffic: events that nobody wants, as a share of those that somebody does. 0 needs no sample.",
)
@click.option("--sample", metavar="EVENTS", help="Past events, a file as for `earmark match`, to measure traffic on.")
@click.option("--ranges", is_flag=True, help="Ranges of cells on a curve instead of conditions.")
@click.option(
    "-o", "--output", metavar="FILE", help="Write the result here (.parquet, .csv, .tsv, .jsonl) instead of to stdout."
)
@click.option("--json", "as_json", is_flag=True, help="JSON lines on stdout; with -o, a summary as one JSON object.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="How the sample is split.")
@options.reading
def compact(
    subscriptions: str,
    budget: float,
    sample: str | None,
    ranges: bool,
    output: str | None,
    as_json: bool,
    seed: int,
    reading: Reading,
) -> None:
    """Write a smaller set of conditions that takes every event the subscriptions take, and a few others.

    Rows are (id, condition, stands_for): the ids that a condition stands for. `earmark match` reads them again. Scores,
    weights and tags are not kept. Half of the sample decides what is merged; what the result lets through is measured
    on the other half. SUBSCRIPTIONS is as for `earmark match`.

    With --ranges the rows are (first, last), ranges of Hilbert's curve through a grid of cells. Only Parquet carries
    the grid; earmark.cover.RangeSummary reads it, and says which events are wanted.

    \b
    Examples
      earmark compact ads.csv --budget 2% --sample visitors.parquet -o fewer.csv
      earmark compact ads.csv --budget 0
      earmark compact ads.parquet --sample visitors.parquet --ranges -o ranges.parquet --json
    """
    from earmark.cli.load import load
    from earmark.cli.output import write_tables
    from earmark.cli.sample import sampled
    from earmark.cover.merging import merge
    from earmark.cover.summary import summarize
    from earmark.tabular.write import check_target

    if sample is None and ranges:
        raise EarmarkError("what ranges let through is measured on events: name a file of past ones with --sample")
    if sample is None and budget > 0:
        raise EarmarkError("a budget is measured on events: name a file of past ones with --sample, or say --budget 0")
    inputs = [subscriptions, *([sample] if sample else [])]
    reading.check(*inputs)
    if output is not None:
        check_target(output, inputs)
    loaded = load(subscriptions, reading)
    view, events = sampled(loaded.matcher, reading.source(sample) if sample else None, seed)
    begun = time.perf_counter()
    made: Merged | Summary
    if ranges:
        made = summarize(view, events, budget, seed=seed)
    else:
        made = merge(view, events, budget, seed=seed, told=_Left())
    write_tables(iter([made.to_arrow()]), output, as_json)
    _tell(made, (loaded.seconds, time.perf_counter() - begun), output, as_json)


class _Left:
    """Says on a terminal, once a second, how many conditions are left."""

    def __init__(self) -> None:
        from earmark.progress import is_shown

        self._shown, self._last = is_shown(), time.monotonic()

    def __call__(self, left: int) -> None:
        now = time.monotonic()
        if self._shown and now - self._last > 1:
            click.echo(f"merging: {left:,} conditions left", err=True)
            self._last = now


def _tell(made: Merged | Summary, seconds: tuple[float, float], output: str | None, as_json: bool) -> None:
    """What came of it: on stderr when stdout has the rows."""
    from earmark.cli.output import counted
    from earmark.cover.summary import Summary

    held = made.held_back
    if as_json and output is not None:
        told: dict[str, Any] = {"subscriptions": len(made.view), "before": made.before, "after": len(made)}
        told |= {"budget": made.budget, "events": held.events, "wanted": held.wanted, "extra": held.extra}
        told |= {"extra_traffic": _finite(held.share), "false_positives": held.false_positives}
        told |= {"decided_on": made.decided.events, "decided_extra_traffic": _finite(made.decided.share)}
        told |= {"space": made.described()} if isinstance(made, Summary) else {"never": len(made.never)}
        told |= {"load_seconds": round(seconds[0], 3), "compact_seconds": round(seconds[1], 3)}
        click.echo(json.dumps({**told, "output": output}, ensure_ascii=False))
        return
    to_stderr = output is None
    if as_json:
        return
    what = "range" if isinstance(made, Summary) else "condition"
    lines = [f"{counted(len(made.view), 'subscription')} -> {counted(len(made), what)}"]
    if isinstance(made, Summary):
        names = ", ".join(made.view.schema.names[attr] for attr in made.space.attr.tolist())
        lines.append(f"  over {names}; {counted(made.before, 'range')} before gaps were closed")
    elif len(made.never):
        lines.append(f"  {len(made.never):,} never match and were left out")
    lines.append(_traffic(made))
    if isinstance(made, Summary) and made.before == len(made) and held.share > made.budget:
        lines.append("  the cells alone are beyond the budget, so no gap was closed")
    click.echo("\n".join(lines), err=to_stderr)


def _traffic(made: Merged | Summary) -> str:
    from earmark.cover.summary import Summary

    held = made.held_back
    if not held.events and isinstance(made, Summary):
        return "  extra traffic: not measured: no sample"
    if not held.events:
        return "  extra traffic: none by construction; there was no sample to measure on"
    if not held.wanted:
        return f"  extra traffic: nobody wants any of {held.events:,} held-back events; {held.extra:,} are let through"
    return (
        f"  extra traffic: {held.share:.2%} measured on {held.events:,} held-back events ({held.wanted:,} wanted, "
        f"{held.extra:,} extra); budget {100 * made.budget:.4g}%"
    )


def _finite(share: float) -> float | None:
    return share if math.isfinite(share) else None
