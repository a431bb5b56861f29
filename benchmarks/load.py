"""How long does loading take, and how much memory does the table need?

    python benchmarks/load.py [--quick] [--json FILE]

Adds w1 and w2 as ready-made columns (Arrow) to an empty Matcher, saves and opens them. Bars: 1M ready-made
subscriptions in under 15 s; at most 40 bytes a predicate beside ids, string constants and what was asked. `--quick`
takes 100k subscriptions. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

from earmark import Matcher
from earmark.report.protocol import QUICK_REPEATS, REPEATS, timed
from earmark.workload.standard import SUBSCRIPTIONS, WORKLOADS, Workload
from engines.base import is_dense
from results import Figure, Result
from tables import number, with_spread

SECONDS_BAR, BYTES_BAR = 15.0, 40.0
BYTES = "bytes a predicate"


def ranges(workload: Workload, weighted: bool) -> pa.Table:
    """The subscriptions as a column `ranges`."""
    count, width = workload.sub_attr.shape
    names = pa.array([f"a{i}" for i in range(workload.attributes)])
    fields = {
        "attribute": pa.DictionaryArray.from_arrays(pa.array(workload.sub_attr.ravel()), names),
        "lo": pa.array(workload.sub_lo.ravel()),
        "hi": pa.array(workload.sub_hi.ravel()),
    }
    if weighted:
        fields["weight"] = pa.array(np.random.default_rng(1).random(count * width))
    values = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    starts = pa.array(np.arange(0, count * width + 1, width, dtype=np.int32))
    return pa.table({"id": np.arange(count), "ranges": pa.ListArray.from_arrays(starts, values)})


def bounds(workload: Workload) -> pa.Table:
    """The subscriptions as pairs of columns; for dense attributes."""
    columns = {"id": np.arange(len(workload.sub_lo))}
    for a in range(workload.attributes):
        columns[f"a{a}_lo"], columns[f"a{a}_hi"] = workload.sub_lo[:, a].copy(), workload.sub_hi[:, a].copy()
    return pa.table(columns)


def event_frame(workload: Workload, times: int = 1) -> pa.Table:
    """The events as a table with one column per attribute, NULL where an event has none; all of them, `times` times."""
    events, columns = len(workload.event_attr), {}
    for attribute in range(workload.attributes):
        values, has = np.zeros(events, np.int64), np.zeros(events, bool)
        rows, places = np.nonzero(workload.event_attr == attribute)
        values[rows], has[rows] = workload.event_value[rows, places], True
        columns[f"a{attribute}"] = pa.array(np.tile(values, times), mask=~np.tile(has, times))
    return pa.table(columns)


def event_dicts(workload: Workload) -> list[dict[str, int]]:
    """The events as mappings."""
    names = [f"a{attribute}" for attribute in range(workload.attributes)]
    rows = zip(workload.event_attr.tolist(), workload.event_value.tolist(), strict=True)
    return [{names[a]: value for a, value in zip(*row, strict=True)} for row in rows]


def loaded(frame: pa.Table) -> Matcher:
    """A new Matcher with these subscriptions."""
    matcher = Matcher()
    matcher.add_many(frame)
    return matcher


def measure(name: str, form: str, frame: pa.Table, repeats: int) -> Iterator[Figure]:
    """Add, save and open, and the size of the table."""

    def figure(what: str, unit: str, values: list[float]) -> Figure:
        return Figure(name, frame.num_rows, form, what, unit, values)

    seconds, matcher = timed(lambda: loaded(frame), repeats)
    yield figure("add", "s", seconds)
    with tempfile.TemporaryDirectory() as folder:
        places = (Path(folder) / f"table-{i}" for i in count())
        yield figure("save", "s", timed(lambda: matcher.save(next(places)), repeats).seconds)
        saved = Path(folder) / "table-0"
        yield figure("open", "s", timed(lambda: Matcher.load(saved), repeats).seconds)
    stats = matcher.stats()
    yield figure(BYTES, "bytes", [stats["table_bytes"] / stats["constraints"]])


def bars_hold(figures: list[Figure], size: int) -> bool:
    """Whether both bars are kept; says so."""
    slowest = max(one.summary.median for one in figures if one.what == "add") * SUBSCRIPTIONS / size
    largest = max(one.summary.median for one in figures if one.what == BYTES)
    held = slowest < SECONDS_BAR and largest <= BYTES_BAR
    scaled = "" if size == SUBSCRIPTIONS else ", scaled up"
    print(
        f"\nslowest load of 1M: {slowest:.1f} s (bar {SECONDS_BAR:.0f} s{scaled}); "
        f"largest table: {largest:.1f} {BYTES} (bar {BYTES_BAR:.0f}) -> {'held' if held else 'MISSED'}"
    )
    return held


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="100k subscriptions instead of 1M")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    size, repeats = (100_000, QUICK_REPEATS) if options.quick else (SUBSCRIPTIONS, REPEATS)
    figures = []
    print(f"{'':26}{'subscriptions':>14}{'add, s':>24}{'save, s':>10}{'open, s':>10}{'bytes/predicate':>17}")
    for name in ("w1", "w2"):
        workload = WORKLOADS[name](subscriptions=size)
        forms = {"ranges": ranges(workload, weighted=False), "weighted ranges": ranges(workload, weighted=True)}
        if is_dense(workload):
            forms["bounds"] = bounds(workload)
        for form, frame in forms.items():
            own = list(measure(name, form, frame, repeats))
            add, *rest = own
            save, opened, each = (number(one.summary.median) for one in rest)
            told = f"{with_spread(add):>24}{save:>10}{opened:>10}{each:>17}"
            print(f"{name + ', ' + form:26}{size:>14,}{told}", flush=True)
            figures += own
    held = bars_hold(figures, size)
    if options.json:
        Result("load", {"subscriptions": size, "repeats": repeats}, figures).write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
