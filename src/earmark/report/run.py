"""Run experiments with progress, and write what they measured: JSON, pictures and one HTML report."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from earmark.progress import clear_line, shares
from earmark.report import results
from earmark.report.bench import SEED, Bench
from earmark.report.claims import verdicts
from earmark.report.experiment import Experiment, Measurement
from earmark.report.papers import all_keys
from earmark.report.protocol import machine

TYPICAL = {"tiny": 1.0, "quick": 20.0, "full": 60.0}
"""Seconds of an experiment that does not say how long it takes."""
ALMOST = 0.97


def measure(experiment: Experiment, scale: str, seed: int = SEED) -> Measurement:
    """Run one experiment."""
    steps = _steps(experiment, scale, seed)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def _steps(experiment: Experiment, scale: str, seed: int) -> Generator[None, None, Measurement]:
    """Run one experiment step by step; the generator returns the measurement."""
    begun = time.perf_counter()
    bench = Bench(experiment, scale, seed)
    gc.freeze()  # the collector runs before every measurement, and would look at all of Numba each time
    try:
        yield from experiment.run(bench)
    finally:
        gc.unfreeze()
    return Measurement(
        paper=experiment.paper,
        name=experiment.name,
        scale=scale,
        title=experiment.title,
        section=experiment.section,
        published=experiment.published,
        setting=experiment.described(scale),
        differs=experiment.differs,
        parameters=json.loads(json.dumps({**experiment.scales[scale], **bench.drawn_from})),
        seed=seed,
        panels=list(experiment.panels),
        printed=list(experiment.printed),
        notes=list(experiment.notes),
        series=bench.series,
        seconds=round(time.perf_counter() - begun, 1),
        machine=machine(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )


class Step(NamedTuple):
    """How much of all experiments is done, 0 to 1, and the measurement that this step completed."""

    share: float
    measurement: Measurement | None = None


def run(
    experiments: Sequence[Experiment],
    scale: str,
    folder: Path,
    say: Callable[[str], None],
    seed: int = SEED,
    resume: bool = False,
) -> None:
    """Run experiments, write each result as it comes, and the report of all results in the folder.

    The report is written when a run is interrupted, too. With `resume`, experiments are left out that the folder has a
    result of, measured by the same version of the code. A folder with results of another scale or seed, or with one
    that cannot be read, is refused before anything is measured.
    """
    before = results.check_folder(folder, all_keys(), scale, seed)
    done = {measurement.key for measurement in before if resume and same_code(measurement.machine, machine())}
    if done:
        say(f"{sum(experiment.key in done for experiment in experiments)} of {len(experiments)} are done already")
    any_result = bool(before)
    try:
        for step in shares(_all_steps([one for one in experiments if one.key not in done], scale, seed), "experiments"):
            if step.measurement is not None:
                results.write(step.measurement, folder)
                any_result = True
                clear_line()
                say(summary(step.measurement))
    finally:
        if any_result:
            write_report(folder)


def same_code(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the same code measured: the same commit without changes, or without a repository the same version.

    `one` and `other` say what a measurement was made on (`protocol.machine`).
    """
    if one["commit"] or other["commit"]:
        return bool(one["commit"] == other["commit"] and not str(one["commit"]).endswith("+"))
    return bool(one["versions"].get("earmark") == other["versions"].get("earmark"))


def _all_steps(experiments: Sequence[Experiment], scale: str, seed: int) -> Iterator[Step]:
    planned = [experiment.seconds.get(scale, TYPICAL[scale]) for experiment in experiments]
    done = 0.0
    for experiment, seconds in zip(experiments, planned, strict=True):
        begun = time.perf_counter()
        steps = _steps(experiment, scale, seed)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                done += seconds
                yield Step(done / sum(planned), end.value)
                break
            elapsed = time.perf_counter() - begun
            yield Step((done + min(elapsed, ALMOST * seconds)) / sum(planned))


def write_report(folder: Path, explained: Mapping[str, str] | None = None) -> Path:
    """Draw all results that a folder has, and write the HTML report.

    `explained` says why claims fail, by "paper/id"; only the committed run has explanations.
    """
    from earmark.report.html import page
    from earmark.report.plots import draw

    measurements = results.read_all(folder, all_keys())
    pictures = {measurement.key: draw(measurement, folder) for measurement in measurements}
    file = folder / "report.html"
    file.write_text(page(measurements, pictures, explained or {}), encoding="utf-8")
    return file


def summary(measurement: Measurement) -> str:
    """Return a line that says how long an experiment took, and one for each of its verdicts."""
    head = f"{measurement.paper} {measurement.label}: {measurement.title} ({measurement.seconds:.0f} s)"
    return "\n".join([head, *(f"  {verdict.claim.id}: {verdict}" for verdict in verdicts(measurement))])
