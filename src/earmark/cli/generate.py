"""`earmark generate`: the standard workloads, those of MICS, and BEGen's, as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.tabular.read import Chunk
    from earmark.workload.begen import Workload as Expressions
    from earmark.workload.standard import Workload

F = TypeVar("F", bound=Callable[..., Any])

STEP = 20_000
NAMES = ["w1", "w1u", "w1z", "w2"]
MICS = {"mics-uniform": "uniform", "mics-zipf": "zipf"}
BEGEN = "begen"
STANDARD_EVENTS = 1_000


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
    """An option that only begen takes. Without it the generator's own default holds, which the help tells."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Without the range of its values, which the error tells who leaves it."""
        return (f"{self.opts[0]} {self.metavar}", self.help or "")


class _Clusters(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """A number of clusters, or none."""

    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "none" or isinstance(value, int):
            return value
        if not str(value).isdigit() or int(value) < 1:
            self.fail(f"{value!r} is neither a number from 1 nor none", param, ctx)
        return int(value)


def _of_begen(name: str, metavar: str, kind: Any, told: str) -> Callable[[F], F]:
    return click.option(name, cls=_OfBegen, type=kind, metavar=metavar, help=told)


@click.command(cls=_Command, short_help="A standard workload as files, for trying and comparing.")
@click.argument("workload", type=click.Choice([*NAMES, *MICS, BEGEN]), metavar="WORKLOAD")
@click.argument("folder")
@click.option(
    "--subscriptions",
    default=100_000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="How many.",
)
@click.option(
    "--events",
    default=1_000,
    show_default=True,
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="How many; at most 1,000 of w1 to w2.",
)
@click.option(
    "--format",
    "kind",
    default="parquet",
    show_default=True,
    type=click.Choice(["parquet", "csv", "jsonl"]),
    help="Of both files.",
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    metavar="N",
    help="Other data; without it the standard data, the same on every machine.",
)
@_of_begen("--dimensions", "N", click.IntRange(1, 1_000_000), "Attributes.  [default: 400]")
@_of_begen("--cardinality", "N", click.IntRange(2), "Values that a dimension can have.  [default: 250,000,000]")
@_of_begen("--clusters", "N", _Clusters(), "Points around which the values of a dimension lie, or none.  [default: 4]")
@_of_begen("--cluster-size", "N", click.IntRange(0), "How far from its point a value may lie.  [default: 100]")
@_of_begen("--subscription-size", "N", click.IntRange(1), "Predicates of a subscription, on average.  [default: 8]")
@_of_begen("--event-size", "N", click.IntRange(1), "Values of an event, on average.  [default: 15]")
@_of_begen(
    "--match-percent",
    "P",
    click.FloatRange(0, 100),
    "How many of the subscriptions an event matches, on average.  [default: 0.1]",
)
@_of_begen(
    "--zipf",
    "EXPONENT",
    click.FloatRange(0, 10),
    "Draw the i-th dimension with odds i to the power of -EXPONENT; 0: uniformly.  [default: 0]",
)
@_of_begen("--range-size", "N", click.IntRange(1), "Values in the range of a predicate, at most.  [default: 12]")
@_of_begen(
    "--weights",
    "clipped|printed|none",
    click.Choice(["clipped", "printed", "none"]),
    "By inv, the inverse frequency of the dimension: N(0.8 inv, 0.05 inv), clipped to inv; or, as the paper prints it,"
    " the greater of that and inv.  [default: clipped]",
)
@click.option("--json", "as_json", is_flag=True, help="What was written, as one JSON object.")
def generate(
    workload: str,
    folder: str,
    subscriptions: int,
    events: int,
    kind: str,
    seed: int | None,
    as_json: bool,
    **parameters: Any,
) -> None:
    """Write a workload to FOLDER, as files of subscriptions and of events, for trying and comparing.

    \b
    WORKLOAD is one of
      w1     400 attributes, 8 a subscription, in clusters around the events
      w1u    the same sizes, attributes uniform
      w1z    the same sizes, a few attributes in nearly everything
      w2     5 attributes, all in every subscription and event
      mics-uniform, mics-zipf
             7 attributes of 256 values, ranges of 4, as in the MICS paper
      begen  weighted Boolean expressions with the parameters of the BE*-Tree paper, each an option

    In Parquet the subscriptions are ready-made (a column ranges), and those of begen in JSON lines too; else they are
    SQL conditions. A smaller workload, but for begen, is the beginning of a larger one.

    \b
    Examples
      earmark generate w2 data --subscriptions 10000 --format csv
      earmark generate begen data --dimensions 50 --clusters none --match-percent 1 --zipf 1
    """
    from earmark.cli.output import write_tables
    from earmark.progress import shares

    given = {name: value for name, value in parameters.items() if value is not None}
    if workload == BEGEN:
        data: Workload | Expressions = _expressions(subscriptions, events, seed, given)
    elif workload in MICS:
        data = _mics(workload, subscriptions, events, seed, given)
    else:
        data = _standard(workload, subscriptions, events, seed, given)
    target = _folder(folder)
    ready = kind == "parquet" or (kind == "jsonl" and len(_weight(data)))
    rows = _ranges if ready else _conditions
    made = {}
    for name, chunks in (("subscriptions", rows(data)), ("events", _events(data, events))):
        path = target / f"{name}.{kind}"
        made[name] = str(path)
        write_tables((chunk.rows for chunk in shares(chunks, name)), str(path))
        if not as_json:
            click.echo(str(path))
    if as_json:
        click.echo(json.dumps({"workload": workload, "subscriptions": subscriptions, "events": events, "files": made}))


def _standard(workload: str, subscriptions: int, events: int, seed: int | None, given: dict[str, Any]) -> Workload:
    from earmark.workload.standard import WORKLOADS

    _check_none_given(workload, given)
    if events > STANDARD_EVENTS:
        raise click.UsageError(f"{workload} has {STANDARD_EVENTS:,} events, so --events cannot be {events:,}")
    make = WORKLOADS[workload]
    return make(subscriptions=subscriptions) if seed is None else make(seed, subscriptions)


def _check_none_given(workload: str, given: dict[str, Any]) -> None:
    if given:
        raise click.UsageError(
            f"--{next(iter(given)).replace('_', '-')} is an option of begen; {workload} has no parameters"
        )


def _mics(workload: str, subscriptions: int, events: int, seed: int | None, given: dict[str, Any]) -> Workload:
    from earmark.workload.mics import mics

    _check_none_given(workload, given)
    if seed is None:
        return mics(MICS[workload], subscriptions, events)
    return mics(MICS[workload], subscriptions, events, seed=seed)


def _expressions(subscriptions: int, events: int, seed: int | None, given: dict[str, Any]) -> Expressions:
    from earmark.workload.begen import Setting
    from earmark.workload.begen import generate as make

    if given.get("clusters") == "none":
        given["clusters"] = None
    if "match_percent" in given:
        given["match_probability"] = given.pop("match_percent") / 100
    if "zipf" in given:
        given["exponent"] = given.pop("zipf")
    if seed is not None:
        given["seed"] = seed
    return make(Setting(subscriptions=subscriptions, events=events, **given))


def _folder(name: str) -> Path:
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EarmarkError(f"the folder {name!r} cannot be made: {problem.strerror}") from None
    return Path(name)


def _steps(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, STEP):
        yield start, min(start + STEP, count)


def _weight(data: Workload | Expressions) -> Any:
    """The weights of the predicates, or nothing."""
    return getattr(data, "sub_weight", ())


def _ranges(data: Workload | Expressions) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    count = len(data.sub_attr)
    names = pa.array([f"a{i}" for i in range(data.attributes)])
    columns = {"lo": data.sub_lo, "hi": data.sub_hi}
    if len(_weight(data)):
        columns["weight"] = _weight(data)
    for start, end in _steps(count):
        used = data.sub_attr[start:end] >= 0  # rows that are shorter than others begin with unused places
        fields = {"attribute": names.take(pa.array(data.sub_attr[start:end][used]))}
        fields |= {name: pa.array(column[start:end][used]) for name, column in columns.items()}
        values = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        starts = np.concatenate([[0], np.cumsum(used.sum(axis=1))]).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(starts), values)
        yield Chunk(pa.table({"id": np.arange(start, end), "ranges": lists}), start, end / count)


def _conditions(data: Workload | Expressions) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    count, weights = len(data.sub_attr), _weight(data)
    for start, end in _steps(count):
        rows = zip(*(c[start:end].tolist() for c in (data.sub_attr, data.sub_lo, data.sub_hi)), strict=True)
        texts = [" AND ".join(_between(*one) for one in zip(*row, strict=True) if one[0] >= 0) for row in rows]
        columns: dict[str, Any] = {"id": np.arange(start, end), "condition": texts}
        if len(weights):
            pairs = zip(data.sub_attr[start:end].tolist(), weights[start:end].tolist(), strict=True)
            columns["weights"] = [
                json.dumps({f"a{a}": w for a, w in zip(*row, strict=True) if a >= 0}) for row in pairs
            ]
        yield Chunk(pa.table(columns), start, end / count)


def _between(attribute: int, lo: int, hi: int) -> str:
    return f"a{attribute} BETWEEN {lo} AND {hi}"


def _events(data: Workload | Expressions, count: int) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    for start, end in _steps(count):
        columns: dict[str, Any] = {"event": np.arange(start, end)}
        attr, value = data.event_attr[start:end], data.event_value[start:end]
        for a in range(data.attributes):
            has = attr == a
            columns[f"a{a}"] = pa.array(np.where(has, value, 0).sum(axis=1), mask=~has.any(axis=1))
        yield Chunk(pa.table(columns), start, end / count)
