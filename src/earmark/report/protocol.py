"""How everything here is timed, how memory is measured, and what is said about the machine. The one place for it.

timing   one run that does not count, then `repeats` runs, each timed by itself with the cyclic garbage collector
         held back. The figure is the median; beside it stand the least and the greatest
memory   in a fresh process (`fresh.py`), on top of what the process held before the engine saw its data: the
         workload itself, the interpreter, the libraries, the compiled kernels and the checking of answers do not
         count
machine  `machine()`, stored with every result: figures of two machines do not compare
"""

from __future__ import annotations

import ctypes
import gc
import importlib.metadata
import os
import platform
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

PACKAGES = ("earmark", "numpy", "numba", "llvmlite", "pyarrow", "duckdb", "polars", "rtree", "matplotlib")
REPEATS, QUICK_REPEATS = 7, 3


class Summary(NamedTuple):
    """A series of measurements of one thing, in one unit."""

    median: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Greatest minus least, as a share of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0


class Timing(NamedTuple, Generic[T]):
    """Seconds of each run that counts, and what the last one returned."""

    seconds: list[float]
    result: T


def summary(values: Sequence[float]) -> Summary:
    """Median, least and greatest."""
    return Summary(statistics.median(values), min(values), max(values))


def timed(run: Callable[[], T], repeats: int, warm_ups: int = 1, check: Callable[[T], None] | None = None) -> Timing[T]:
    """Run, and run again; `check` sees what every run returned, outside the clock."""
    for _ in range(warm_ups):
        result = run()
        if check is not None:
            check(result)
    seconds = []
    for _ in range(repeats):
        took, result = clocked(run)
        seconds.append(took)
        if check is not None:
            check(result)
    return Timing(seconds, result)


CLOCKS: dict[str, Callable[[], float]] = {
    "thread": time.thread_time,
    "process": time.process_time,
    "wall": time.perf_counter,
}


def clocked(run: Callable[[], T], clock: str = "wall") -> tuple[float, T]:
    """Seconds of one run, and what it returned. The garbage collector waits, as `timeit` has it.

    The clocks "thread" and "process" are processor time, which other work on the machine disturbs less.
    """
    now = CLOCKS[clock]
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        begun = now()
        result = run()
        return now() - begun, result
    finally:
        if collecting:
            gc.enable()


class Peak:
    """The most memory the process held during the parts that were watched.

    Where the system cannot begin a new peak (anywhere but Linux), it is the most since the process started.
    """

    def __init__(self) -> None:
        self.bytes = 0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch what happens inside."""
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        yield
        self.bytes = max(self.bytes, _status("VmHWM") or _most_ever())


def resident_bytes() -> int:
    """What this process holds in memory now; where the system does not say, the most it ever held."""
    return _status("VmRSS") or _most_ever()


def release_free_memory() -> None:
    """Give memory that the process has freed back to the system, where the C library can (glibc)."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, versions, and how busy it was."""
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    for package in PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": round(os.getloadavg()[0], 2),
        "commit": _commit(),
        "versions": versions,
    }


def hardware(machine: Mapping[str, Any]) -> str:
    """Return what a machine is, as text: processor, the cores that the process could use, memory, system."""
    cores = f"{machine['cores']} core" + ("" if machine["cores"] == 1 else "s")
    return f"{machine['processor']}, {cores}, {machine['memory_gib']} GiB, {machine['system']}"


def machines(measurements: Sequence[Any]) -> str:
    """Return the machines that measured, as text."""
    return " or ".join(dict.fromkeys(hardware(measurement.machine) for measurement in measurements))


def versions(measurements: Sequence[Any]) -> str:
    """Return the versions that measured, as text; of a package all that there are, where they differ."""
    every = [measurement.machine["versions"] for measurement in measurements]
    names = dict.fromkeys(name for one in every for name in one)
    several = {name: dict.fromkeys(one.get(name, "not recorded") for one in every) for name in names}
    return ", ".join(f"{name} {' or '.join(different)}" for name, different in several.items())


class Run(NamedTuple):
    """Experiments that one commit measured on one machine."""

    commit: str
    hardware: str
    keys: list[str]
    begun: str
    ended: str
    loads: list[float]

    def __str__(self) -> str:
        return (
            f"commit {self.commit}, {self.begun} to {self.ended} UTC, load average {min(self.loads):.1f} to "
            f"{max(self.loads):.1f}: {', '.join(self.keys)}"
        )


def runs(measurements: Sequence[Any]) -> list[Run]:
    """Return which experiments were measured by which commit on which machine, in the order of time."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for measurement in sorted(measurements, key=lambda measurement: str(measurement.date)):
        made_on = str(measurement.machine["commit"]), hardware(measurement.machine)
        groups.setdefault(made_on, []).append(measurement)
    return [
        Run(
            commit,
            own,
            [measurement.key for measurement in group],
            _minute(group[0].date),
            _minute(group[-1].date),
            [float(measurement.machine["load_average"]) for measurement in group],
        )
        for (commit, own), group in groups.items()
    ]


def run_lines(measurements: Sequence[Any]) -> list[str]:
    """Return a line for each run, with its machine where there are several."""
    every = runs(measurements)
    several = len({run.hardware for run in every}) > 1
    return [f"{run} (on {run.hardware})" if several else str(run) for run in every]


def _minute(date: str) -> str:
    """Return an ISO date to the minute: "2026-11-18 21:50"."""
    return date[:16].replace("T", " ")


def _status(field: str) -> int:
    # Not ru_maxrss: a new program inherits in it the peak of the process that started it.
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    return 0


def _most_ever() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _commit() -> str | None:
    """Return the commit of the checkout, with a + when files differ from it.

    Files in docs/ do not count: the results of a run may be written there while it goes on.
    """
    git = ["git", "-C", str(Path(__file__).parent)]
    with suppress(OSError, subprocess.SubprocessError):
        commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        code = ["--", ":(top)", ":(top,exclude)docs"]
        status = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", *code], capture_output=True, text=True, check=True
        )
        return commit.stdout.strip() + ("+" if status.stdout.strip() else "")
    return None
