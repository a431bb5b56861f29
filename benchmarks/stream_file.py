"""Does `earmark match` take a file of ten million events in bounded memory, and tell how long it will take?

    python benchmarks/stream_file.py [--quick] [--formats parquet,csv,jsonl] [--json FILE]

Writes a file of events and its first tenth, never holding either in memory, and runs the real executable on both with
a terminal as its stderr. Bars: every run shows a bar with the time left (if it takes longer than two seconds); it never
holds more than 1,000 MiB, and on the whole file at most 150 MiB more than on the tenth; and it finds what it should.
`--quick` takes 500,000 events. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from earmark.tabular.write import writing
from results import Figure, Result

EVENTS, QUICK_EVENTS = 10_000_000, 500_000
SUBSCRIPTIONS, WIDTH, DOMAIN = 1000, 5, 1000
MEMORY_BAR, GROWTH_BAR = 1000, 150  # MiB
LONG = 2.0  # seconds: a bar comes after one, and some go by before anything is read
TIME_LEFT = re.compile(r"matching +\[[#-]+\] +(\d+)% +(\d\d:\d\d:\d\d)")
STEP = 100_000


@dataclass(frozen=True)
class Run:
    """What one run took and showed."""

    seconds: float
    peak: float
    estimates: list[tuple[str, str]]

    @property
    def long(self) -> bool:
        """Whether it took so long that it owes the time left."""
        return self.seconds > LONG


def tables(count: int) -> Iterator[pa.Table]:
    """Events: n goes round and round from 0 to 999, so that each subscription matches 5 of 1,000."""
    step = np.arange(STEP)
    texts = pa.array(["x", "y", None, "z"] * (STEP // 4))
    for start in range(0, count, STEP):
        columns = {"n": (start + step) % DOMAIN, "f": np.random.default_rng(start).random(STEP), "t": texts}
        yield pa.table(columns).slice(0, count - start)


def write_events(path: Path, count: int) -> None:
    """A file of events, in the format of its name."""
    made = tables(count)
    first = next(made)
    with writing(path, first.schema) as write:
        write(first)
        for table in made:
            write(table)


def write_subscriptions(path: Path) -> None:
    lines = [f"{i},n BETWEEN {i} AND {i + WIDTH - 1} AND f >= 0\n" for i in range(SUBSCRIPTIONS)]
    path.write_text("id,condition\n" + "".join(lines))


def wanted(count: int) -> int:
    """How many results there must be: n matches the subscriptions n - 4 to n, as far as there are any."""
    a_round = sum(min(n, WIDTH - 1) + 1 for n in range(DOMAIN))
    return count // DOMAIN * a_round


def run(folder: Path, events: Path) -> Run:
    """Match a file with the real executable, as on a terminal, and watch it."""
    script = Path(sys.executable).with_name("earmark")
    command = [script, "match", "s.csv", events.name, "-o", "hits.parquet"]
    ours, theirs = pty.openpty()
    begun, shown, peak = time.perf_counter(), "", 0.0
    process = subprocess.Popen(command, cwd=folder, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    while True:
        if select.select([ours], [], [], 0.05)[0]:
            part = b""
            with contextlib.suppress(OSError):  # how a terminal says that nobody is at the other end
                part = os.read(ours, 1 << 16)
            if not part:
                break
            shown += part.decode(errors="replace")
        peak = max(peak, peak_of(process.pid))
    os.close(ours)
    code = process.wait()
    seconds = time.perf_counter() - begun
    if code != 0:
        raise SystemExit(f"{' '.join(map(str, command))} ended with {code}: {shown[-500:]}")
    return Run(seconds, peak, TIME_LEFT.findall(shown))


def peak_of(process: int) -> float:
    """The most memory that a process has held so far, in MiB; 0 where the system does not say."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return 0.0


def measure(folder: Path, kind: str, count: int) -> tuple[list[Figure], bool]:
    """Both files of one format; whether the bars are held."""
    held, peaks, figures = True, [], []
    for size in (count // 10, count):
        path = folder / f"events.{kind}"
        write_events(path, size)
        megabytes = path.stat().st_size / 2**20
        done = run(folder, path)
        found = pq.read_metadata(folder / "hits.parquet").num_rows
        right = found == wanted(size)
        left = f"after {done.estimates[0][0]} %: {done.estimates[0][1]}" if done.estimates else "not shown"
        print(
            f"{kind:9}{size:>12,}{megabytes:>9,.0f}{done.seconds:>10.1f}{size / done.seconds:>14,.0f}"
            f"{done.peak:>10,.0f}   {left:22}{'' if right else f'WRONG: {found:,} results'}",
            flush=True,
        )
        held &= right and done.peak <= MEMORY_BAR and (bool(done.estimates) or not done.long)
        peaks.append(done.peak)
        for what, unit, value in (("time", "s", done.seconds), ("memory", "MiB", done.peak)):
            status, values = ("ok", [value]) if right else ("wrong", [])
            figures.append(Figure(f"{kind} file", SUBSCRIPTIONS, "scan", what, unit, values, status, size))
        path.unlink()
    return figures, held and peaks[1] - peaks[0] <= GROWTH_BAR


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_EVENTS:,} events instead of {EVENTS:,}")
    parser.add_argument("--formats", default="parquet,csv", metavar="LIST", help="default: parquet,csv")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result here")
    options = parser.parse_args()
    count = QUICK_EVENTS if options.quick else EVENTS
    figures, held = [], True
    head = f"{'':9}{'events':>12}{'MiB':>9}{'seconds':>10}{'events/s':>14}{'peak MiB':>10}   time left, as first shown"
    with tempfile.TemporaryDirectory(prefix="earmark-") as name:
        folder = Path(name)
        write_subscriptions(folder / "s.csv")
        write_events(folder / "events.csv", 1000)
        run(folder, folder / "events.csv")  # kernels are compiled, if they were not yet
        print(head)
        for kind in options.formats.split(","):
            own, fine = measure(folder, kind, count)
            figures += own
            held &= fine
    told = f"at most {MEMORY_BAR:,} MiB, at most {GROWTH_BAR} MiB more for ten times the events, the time left is shown"
    print(f"\n{told} -> {'held' if held else 'MISSED'}")
    if options.json:
        Result("stream_file", {"events": count}, figures).write(options.json)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
