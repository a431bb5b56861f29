"""What the benchmarks on Spark share: a session, the data of w2, clocks, bars that hold or not, and a command line."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from earmark.spark import ensure_java
from earmark.workload.standard import w2
from results import Figure, Result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTRIBUTES = [f"a{i}" for i in range(5)]
"""Of w2."""
CORES = 2
MIB = 1 << 20
SUM = ("count(*)", "sum(event * 31 + subscription)", "bit_xor(xxhash64(event, subscription))")


def session(folder: Path, master: str = f"local[{CORES}]", settings: Mapping[str, str] | None = None) -> SparkSession:
    """A quiet local session whose files lie in a folder."""
    from pyspark.sql import SparkSession

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    usual = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * CORES),
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "4g",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    builder = SparkSession.builder.master(master)
    for name, value in {**usual, **(settings or {})}.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def bounds_of_w2(count: int) -> pa.Table:
    """So many subscriptions of w2 with ready-made bounds, a pair of columns an attribute."""
    data = w2(subscriptions=count)
    columns: dict[str, Any] = {"id": np.arange(count)}
    for i, name in enumerate(ATTRIBUTES):
        columns[f"{name}_lo"], columns[f"{name}_hi"] = data.sub_lo[:, i], data.sub_hi[:, i]
    return pa.table(columns)


def run(frame: DataFrame) -> None:
    """All of a query, its rows thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def digest(frame: DataFrame) -> tuple[Any, ...]:
    """All of a result of (event, subscription) in three numbers."""
    return tuple(frame.selectExpr(*(f"{one} AS c{i}" for i, one in enumerate(SUM))).first())


# --- clocks ----------------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """What the runs of a query took: seconds by the clock, and of processor time in the JVM and its workers."""

    clock: list[float]
    processor: list[float]


def taken_by(frame: DataFrame, repeats: int, warm_ups: int = 1) -> Taken:
    """What a query takes, after some runs that do not count."""
    for _ in range(warm_ups):
        run(frame)
    jvm = int(frame.sparkSession.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    found = [both_clocks(lambda: run(frame), jvm) for _ in range(repeats)]
    return Taken([clock for clock, _ in found], [processor for _, processor in found])


def both_clocks(call: Callable[[], Any], root: int, children: bool = True) -> tuple[float, float]:
    """Seconds by the clock, and of processor time in a process and (with `children`) its descendants."""
    used = (lambda: processor_seconds(root)) if children else time.process_time
    before, begun = used(), time.perf_counter()
    call()
    return time.perf_counter() - begun, used() - before


def processor_seconds(root: int) -> float:
    """User and system time of a process and all below it, those that have ended included."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
            used[int(entry.name)] = sum(map(int, fields[11:15])) / tick
    total = 0.0
    for process, seconds in used.items():
        above = process
        while above not in (0, root):
            above = parents.get(above, 0)
        total += seconds if above == root else 0.0
    return total


# --- bars and the command line ---------------------------------------------------------------------------------------


class Report:
    """Figures, and whether all bars hold."""

    def __init__(self) -> None:
        self.figures: list[Figure] = []
        self.held = True

    def bar(self, told: str, holds: bool) -> None:
        """Say of a bar whether it holds."""
        print(f"  {told} -> {'held' if holds else 'MISSED'}", flush=True)
        self.held = self.held and holds


R = TypeVar("R", bound=Report)


def parser_of(text: str | None, quick: str) -> argparse.ArgumentParser:
    """A parser with the options that all have; `quick` says what a quick run is."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    return parser


def measured(
    program: str,
    parser: argparse.ArgumentParser,
    work: Callable[[SparkSession, Path, argparse.Namespace, R], None],
    report: R,
) -> int:
    """Do the work in a session and a folder of its own, and write the result; the exit code."""
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder))
        work(spark, Path(folder), options, report)
        spark.stop()
    print(f"\n{'all bars held' if report.held else 'A BAR WAS MISSED'}")
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        Result(program, {**settings, "cores": CORES}, report.figures).write(options.json)
    return 0 if report.held else 1
