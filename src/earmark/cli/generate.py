"""`earmark generate`: the standard workloads as files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from earmark.progress import shares
from earmark.tabular import Chunk, Writer
from earmark.workload.standard import WORKLOADS, Workload

STEP = 20_000


@click.command()
@click.argument("workload", type=click.Choice(sorted(WORKLOADS)))
@click.argument("folder", type=click.Path(file_okay=False))
@click.option("--subscriptions", default=100_000, show_default=True, type=click.IntRange(1, 1_000_000))
@click.option("--events", default=1_000, show_default=True, type=click.IntRange(1, 1_000))
@click.option("--format", "kind", default="parquet", show_default=True, type=click.Choice(["parquet", "csv", "jsonl"]))
@click.option("--seed", type=int, help="Another seed, other data; without it the standard data, the same everywhere.")
def generate(workload: str, folder: str, subscriptions: int, events: int, kind: str, seed: int | None) -> None:
    """Write a standard workload to FOLDER as subscriptions and events, for trying and for comparing.

    In Parquet the subscriptions are ready-made (a column ranges), in CSV and JSON lines they are SQL conditions.
    Smaller sizes are prefixes of larger ones.
    """
    make = WORKLOADS[workload]
    data = (make() if seed is None else make(seed)).head(subscriptions)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    rows = _ranges if kind == "parquet" else _conditions
    for name, chunks in (("subscriptions", rows(data)), ("events", _events(data, events))):
        path = target / f"{name}.{kind}"
        tracked = (chunk.table for chunk in shares(chunks, name))
        first = next(tracked)
        with Writer(path, first.schema) as writer:
            writer.write(first)
            for table in tracked:
                writer.write(table)
        click.echo(str(path))


def _steps(count: int) -> Iterator[tuple[int, int]]:
    for start in range(0, count, STEP):
        yield start, min(start + STEP, count)


def _ranges(data: Workload) -> Iterator[Chunk]:
    import pyarrow as pa

    count, width = data.sub_attr.shape
    names = pa.array([f"a{i}" for i in range(data.attributes)])
    for start, end in _steps(count):
        part = [column[start:end].ravel() for column in (data.sub_attr, data.sub_lo, data.sub_hi)]
        attribute = names.take(pa.array(part[0]))
        values = pa.StructArray.from_arrays(
            [attribute, pa.array(part[1]), pa.array(part[2])], ["attribute", "lo", "hi"]
        )
        lists = pa.ListArray.from_arrays(pa.array(np.arange(0, len(part[0]) + 1, width, dtype=np.int32)), values)
        yield Chunk(pa.table({"id": np.arange(start, end), "ranges": lists}), end / count)


def _conditions(data: Workload) -> Iterator[Chunk]:
    import pyarrow as pa

    count = len(data.sub_attr)
    for start, end in _steps(count):
        rows = zip(*(c[start:end].tolist() for c in (data.sub_attr, data.sub_lo, data.sub_hi)), strict=True)
        texts = [" AND ".join(f"a{a} BETWEEN {lo} AND {hi}" for a, lo, hi in zip(*row, strict=True)) for row in rows]
        yield Chunk(pa.table({"id": np.arange(start, end), "condition": texts}), end / count)


def _events(data: Workload, count: int) -> Iterator[Chunk]:
    import pyarrow as pa

    columns: dict[str, Any] = {"event": np.arange(count)}
    for a in range(data.attributes):
        has = data.event_attr[:count] == a
        values = np.where(has, data.event_value[:count], 0).sum(axis=1)
        columns[f"a{a}"] = pa.array(values, mask=~has.any(axis=1))
    yield Chunk(pa.table(columns), 1.0)
