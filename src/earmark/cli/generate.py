"""`earmark generate`: the standard workloads as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.tabular.read import Chunk
    from earmark.workload.standard import Workload

STEP = 20_000
NAMES = ["w1", "w1u", "w1z", "w2"]


@click.command(short_help="A standard workload as files, for trying and comparing.")
@click.argument("workload", type=click.Choice(NAMES), metavar="WORKLOAD")
@click.argument("folder")
@click.option(
    "--subscriptions", default=100_000, show_default=True, type=click.IntRange(1, 1_000_000), help="How many."
)
@click.option("--events", default=1_000, show_default=True, type=click.IntRange(1, 1_000), help="How many.")
@click.option("--format", "kind", default="parquet", show_default=True, type=click.Choice(["parquet", "csv", "jsonl"]))
@click.option(
    "--seed", type=click.IntRange(0), help="Other data; without it the standard data, the same on every machine."
)
def generate(workload: str, folder: str, subscriptions: int, events: int, kind: str, seed: int | None) -> None:
    """Write a standard workload to FOLDER, as files of subscriptions and of events, for trying and comparing.

    \b
    WORKLOAD is one of
      w1    400 attributes, 8 a subscription, in clusters around the events
      w1u   the same sizes, attributes uniform
      w1z   the same sizes, a few attributes in nearly everything
      w2    5 attributes, all in every subscription and event

    In Parquet the subscriptions are ready-made (a column ranges); in CSV and JSON lines they are SQL conditions.
    A smaller workload is the beginning of a larger one.

    \b
    Example
      earmark generate w2 data --subscriptions 10000 --format csv
    """
    from earmark.progress import shares
    from earmark.tabular.write import Writer
    from earmark.workload.standard import WORKLOADS

    make = WORKLOADS[workload]
    target = _folder(folder)
    data = make(subscriptions=subscriptions) if seed is None else make(seed, subscriptions)
    rows = _ranges if kind == "parquet" else _conditions
    for name, chunks in (("subscriptions", rows(data)), ("events", _events(data, events))):
        path = target / f"{name}.{kind}"
        tables: Iterator[Any] = (chunk.rows for chunk in shares(chunks, name))
        first = next(tables)
        with Writer(path, first.schema) as writer:
            writer.write(first)
            for table in tables:
                writer.write(table)
        click.echo(str(path))


def _folder(name: str) -> Path:
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise EarmarkError(f"the folder {name!r} cannot be made: {problem.strerror}") from None
    return Path(name)


def _steps(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, STEP):
        yield start, min(start + STEP, count)


def _ranges(data: Workload) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    count, width = data.sub_attr.shape
    names = pa.array([f"a{i}" for i in range(data.attributes)])
    for start, end in _steps(count):
        part = [column[start:end].ravel() for column in (data.sub_attr, data.sub_lo, data.sub_hi)]
        attribute = names.take(pa.array(part[0]))
        values = pa.StructArray.from_arrays(
            [attribute, pa.array(part[1]), pa.array(part[2])], ["attribute", "lo", "hi"]
        )
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(part[0]) + 1, width, dtype=np.int32)), values)
        yield Chunk(pa.table({"id": np.arange(start, end), "ranges": lists}), start, end / count)


def _conditions(data: Workload) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    count = len(data.sub_attr)
    for start, end in _steps(count):
        rows = zip(*(c[start:end].tolist() for c in (data.sub_attr, data.sub_lo, data.sub_hi)), strict=True)
        texts = [" AND ".join(f"a{a} BETWEEN {lo} AND {hi}" for a, lo, hi in zip(*row, strict=True)) for row in rows]
        yield Chunk(pa.table({"id": np.arange(start, end), "condition": texts}), start, end / count)


def _events(data: Workload, count: int) -> Iterator[Chunk]:
    import numpy as np
    import pyarrow as pa

    from earmark.tabular.read import Chunk

    columns: dict[str, Any] = {"event": np.arange(count)}
    for a in range(data.attributes):
        has = data.event_attr[:count] == a
        values = np.where(has, data.event_value[:count], 0).sum(axis=1)
        columns[f"a{a}"] = pa.array(values, mask=~has.any(axis=1))
    yield Chunk(pa.table(columns), 0, 1.0)
