"""Every engine in a process of its own, so that one's memory, threads and caches are not another's.

The parent writes the workload and the reference answers to a folder once; each child reads them, measures one engine
and writes its figures, one JSON object a line, as it gets them. A child that takes too long, or dies, loses only what
it had not yet measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import engines
from earmark.workload.standard import Workload
from engines.base import Numbers
from measure import measure
from results import Figure

START = 120.0
"""Seconds a child may take beyond its limit, for starting and compiling, before it is stopped."""


def write_data(file: Path, workload: Workload, wanted: Numbers) -> None:
    """What the children need, in one file."""
    arrays = {name: np.asarray(value) for name, value in workload._asdict().items()}
    np.savez(file, wanted=wanted, **arrays)  # type: ignore[arg-type]


def read_data(file: Path) -> tuple[Workload, Numbers]:
    """The workload and the reference answers."""
    with np.load(file) as found:
        arrays: dict[str, Any] = {name: found[name] for name in Workload._fields}
        arrays["attributes"], arrays["domain"] = int(arrays["attributes"]), int(arrays["domain"])
        return Workload(**arrays), found["wanted"]


def measure_fresh(
    engine: str, name: str, subscriptions: int, data: Path, repeats: int, limit: float, threads: int
) -> list[Figure]:
    """The figures of one engine on the workload in `data`, measured in a new process."""
    output = data.with_name("figures.jsonl")
    output.unlink(missing_ok=True)
    job = {"engine": engine, "name": name, "data": str(data), "output": str(output)}
    job |= {"repeats": repeats, "limit": limit, "threads": threads}
    problem, status = "", "failed"
    # Threads must be known before polars starts; what an engine spills to disk goes with the folder.
    environment = os.environ | {"POLARS_MAX_THREADS": str(threads), "TMPDIR": str(data.parent)}
    try:
        done = subprocess.run(
            [sys.executable, __file__, json.dumps(job)],
            timeout=limit + START,
            env=environment,
            capture_output=True,
            text=True,
        )
        if done.returncode < 0:
            problem = f"the process was killed by signal {-done.returncode}"
        elif done.returncode:
            problem = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    except subprocess.TimeoutExpired:
        problem, status = f"stopped: not done in {limit:,.0f} s and {START:,.0f} s for the start", "skipped"
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    figures = [Figure(**json.loads(line)) for line in lines]
    if problem:
        # Named after the step that did not end: the build, or some search.
        what = "search" if figures else "build"
        figures.append(Figure(name, subscriptions, engine, what, "", [], status, 0, problem))
    return figures


def main() -> None:
    """The child."""
    job = json.loads(sys.argv[1])
    workload, wanted = read_data(Path(job["data"]))
    engine = engines.make(job["engine"], job["threads"])
    with open(job["output"], "a", encoding="utf-8") as output:

        def report(figure: Figure) -> None:
            print(json.dumps(asdict(figure)), file=output, flush=True)

        measure(engine, job["name"], workload, wanted, job["repeats"], job["limit"], report)


if __name__ == "__main__":
    main()
