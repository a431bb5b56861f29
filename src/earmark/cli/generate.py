"""`earmark generate`: the standard workloads, those of MICS, and BEGen's, as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.cli import options
from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.tabular.source import Chunk
    from earmark.workload.standard import Workload

STEP = 20_000
NAMES = ["w1", "w1u", "w1z", "w2"]
MICS = {"mics-uniform": "uniform", "mics-zipf": "zipf"}
BEGEN = "begen"
STANDARD_EVENTS = 1_000
_MATCHES = "Subscriptions that an event matches, on average.  [default: 0.1]"
_WEIGHTS = (
    "By inv, the inverse frequency of the dimension: N(0.8 inv, 0.05 inv), clipped to inv; or, as the paper prints it,"
    " the greater of that and inv.  [default: clipped]"
)


class _Command(click.Command):
    """Shows the options of begen in a section of their own."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Options of begen": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                sections["Options of begen" if isinstance(parameter, _OfBegen) else "Options"].append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class _OfBegen(click.Option):
    """An option that only begen takes; its default is the generator's own, which the help names."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the help without the range of values, which an error names when it matters."""
        return (f"{self.opts[0]} {self.metavar}", self.help or "")


def _clusters(value: str) -> int | str:
    """Return a number of clusters, or none."""
    if value != "none" and (not value.isdigit() or int(value) < 1):
        raise click.BadParameter(f"{value!r} is neither a number from 1 nor none")
    return value if value == "none" else int(value)


_PARAMETERS = (
    ("--dimensions", "N", click.IntRange(1, 1_000_000), "Number of attributes.  [default: 400]"),
    ("--cardinality", "N", click.IntRange(2), "Values that a dimension can have.  [default: 250,000,000]"),
    ("--clusters", "N", _clusters, "Points around which a dimension's values are, or none.  [default: 4]"),
    ("--cluster-size", "N", click.IntRange(0), "Greatest distance of a value from its point.  [default: 100]"),
    ("--subscription-size", "N", click.IntRange(1), "Predicates per subscription, on average.  [default: 8]"),
    ("--event-size", "N", click.IntRange(1), "Values per event, on average.  [default: 15]"),
    ("--match-percent", "P", click.FloatRange(0, 100), _MATCHES),
    ("--zipf", "EXPONENT", click.FloatRange(0, 10), "Odds of dimension i: i to the power of -EXPONENT.  [default: 0]"),
    ("--range-size", "N", click.IntRange(1), "Most values in the range of a predicate.  [default: 12]"),
    ("--weights", "clipped|printed|none", click.Choice(["clipped", "printed", "none"]), _WEIGHTS),
)
_begen = (click.option(n, cls=_OfBegen, type=kind, metavar=m, help=text) for n, m, kind, text in _PARAMETERS)


@click.command(cls=_Command, short_help="Write a standard workload as files, to try and compare.")
@click.argument("workload", type=click.Choice([*NAMES, *MICS, BEGEN]), metavar="WORKLOAD")
@click.argument("folder")
@options.number("--subscriptions", 100_000, "Number of subscriptions.", most=1_000_000)
@options.number("--events", STANDARD_EVENTS, "Number of events; w1 to w2 have at most 1,000.", most=1_000_000)
@options.choice("--format kind", "parquet", ["parquet", "csv", "jsonl"], "Format of both files.")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Draw other data than the standard data.")
@options.together(*_begen)
@options.json_object("Print what was written")
def generate(workload: str, folder: str, kind: str, as_json: bool, **asked: Any) -> None:
    """Write a workload to FOLDER, as files of subscriptions and of events, to try and compare.

    \b
    WORKLOAD is one of
      w1     400 attributes, 8 per subscription, in clusters around the events
      w1u    the same sizes, attributes uniform
      w1z    the same sizes, a few attributes in nearly everything
      w2     5 attributes, all in every subscription and event
      mics-uniform, mics-zipf
             7 attributes of 256 values, ranges of 4, as in the MICS paper
      begen  weighted Boolean expressions with the parameters of the BE*-Tree paper, each an option

    In Parquet, subscriptions are ready-made (a column ranges), and those of begen in JSON lines too; otherwise they are
    SQL conditions. A smaller workload is the beginning of a larger one, except with begen.

    \b
    Examples
      earmark generate w2 data --subscriptions 10000 --format csv
      earmark generate begen data --dimensions 50 --clusters none --match-percent 1 --zipf 1
    """
    from earmark.cli.files import write_tables
    from earmark.progress import shares

    subscriptions, events, seed = (asked.pop(name) for name in ("subscriptions", "events", "seed"))
    data = _drawn(workload, subscriptions, events, seed, {n: value for n, value in asked.items() if value is not None})
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EarmarkError(f"the folder {folder!r} cannot be created: {problem.strerror}") from None
    ready = kind == "parquet" or (kind == "jsonl" and len(data.sub_weight) > 0)
    rows = partial(_subscriptions, ready)
    files = {}
    for name, count, make in (("subscriptions", subscriptions, rows), ("events", events, _events)):
        files[name] = str(Path(folder) / f"{name}.{kind}")
        write_tables((chunk.rows for chunk in shares(_chunks(data, count, make), name)), files[name])
        if not as_json:
            click.echo(files[name])
    if as_json:
        click.echo(json.dumps({"workload": workload, "subscriptions": subscriptions, "events": events, "files": files}))


def _drawn(workload: str, subscriptions: int, events: int, seed: int | None, given: dict[str, Any]) -> Workload:
    """Draw a workload; `given` are the options of begen."""
    from earmark.workload import begen, mics, standard

    seeded: dict[str, Any] = {} if seed is None else {"seed": seed}
    if workload == BEGEN:
        if given.get("clusters") == "none":
            given["clusters"] = None
        if "match_percent" in given:
            given["match_probability"] = given.pop("match_percent") / 100
        if "zipf" in given:
            given["exponent"] = given.pop("zipf")
        return begen.generate(begen.Setting(subscriptions=subscriptions, events=events, **given, **seeded))
    if given:
        name = next(iter(given)).replace("_", "-")
        raise click.UsageError(f"--{name} is an option of begen; {workload} has no parameters")
    if workload in MICS:
        return mics.mics(MICS[workload], subscriptions, events, **seeded)
    if events > STANDARD_EVENTS:
        raise click.UsageError(f"{workload} has {STANDARD_EVENTS:,} events, so --events cannot be {events:,}")
    return standard.WORKLOADS[workload](subscriptions=subscriptions, **seeded)


def _chunks(data: Workload, count: int, make: Callable[[Workload, int, int], dict[str, Any]]) -> Iterator[Chunk]:
    """Yield the rows that `make` gives for each stretch of them, as tables."""
    import pyarrow as pa

    from earmark.tabular.source import Chunk

    for start in range(0, count, STEP):
        end = min(start + STEP, count)
        yield Chunk(pa.table(make(data, start, end)), start, end / count)


def _subscriptions(ready: bool, data: Workload, start: int, end: int) -> dict[str, Any]:
    """Return subscriptions as columns: `ready`-made ranges, or SQL conditions."""
    from earmark.workload.blocks import conditions, maps, ranges

    part, ids = data.part(start, end), range(start, end)
    weighted = len(part.sub_weight) > 0
    if ready:
        return {"id": ids, "ranges": ranges(part, **({"weight": part.sub_weight} if weighted else {}))}
    columns: dict[str, Any] = {"id": ids, "condition": conditions(part)}
    if weighted:
        weights = maps(part.sub_attr, part.sub_weight, part.attributes)
        columns["weights"] = [json.dumps(dict(pairs)) for pairs in weights.to_pylist()]
    return columns


def _events(data: Workload, start: int, end: int) -> dict[str, Any]:
    from earmark.workload.blocks import columns

    values = columns(data.event_attr[start:end], data.event_value[start:end], data.attributes)
    return {"event": range(start, end), **values}
