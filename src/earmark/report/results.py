"""One JSON file per experiment, in one versioned schema: everything that was measured, and what it was measured on.

FOLDER/vcr/figure-6.json    {"version": 1, "paper": "vcr", "name": "figure-6", "scale": "full", …,
                             "series": [{"panel": …, "name": …, "points": [{"x": 8, "samples": […], …}]}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError
from earmark.report.experiment import SCALES, Measurement, Panel, Point, Printed, Series

VERSION = 1


def file_of(folder: Path, paper: str, name: str) -> Path:
    """Return where the result of an experiment goes."""
    return folder / paper / f"{name}.json"


def write(measurement: Measurement, folder: Path) -> Path:
    """Write a measurement beside its place, then move it there."""
    file = file_of(folder, measurement.paper, measurement.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    record = {"version": VERSION} | asdict(measurement)
    record["panels"] = [panel._asdict() for panel in measurement.panels]
    record["printed"] = [printed._asdict() for printed in measurement.printed]
    part = file.with_name(file.name + ".part")
    part.write_text(json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    part.replace(file)
    return file


def read(file: Path) -> Measurement:
    """Read a measurement from its file."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise EarmarkError(f"{file}: {problem.strerror}") from None
    except ValueError:
        raise EarmarkError(f"{file} is not JSON") from None
    version = record.get("version") if isinstance(record, dict) else None
    if version != VERSION:
        raise EarmarkError(f"{file}: expected a result of version {VERSION}, got version {version}")
    try:
        return _measurement(record)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise EarmarkError(f"{file} is not the result of an experiment: {type(problem).__name__}: {problem}") from None


def _measurement(record: dict[str, Any]) -> Measurement:
    known = {field.name for field in fields(Measurement)}
    if set(record) != known | {"version"}:
        raise ValueError(f"fields {sorted(set(record) ^ (known | {'version'}))} are missing or unknown")
    if record["scale"] not in SCALES:
        raise ValueError(f"unknown scale {record['scale']!r}")
    series = [
        Series(row["panel"], row["name"], [Point(**point) for point in row["points"]]) for row in record["series"]
    ]
    panels = [Panel(**row) for row in record["panels"]]
    if unknown := {row.panel for row in series} - {panel.name for panel in panels}:
        raise ValueError(f"series of unknown panels {sorted(unknown)}")
    printed = [Printed(**row) for row in record["printed"]]
    plain = {name: record[name] for name in known - {"series", "panels", "printed"}}
    return Measurement(series=series, panels=panels, printed=printed, **plain)


def check_folder(folder: Path, keys: Iterable[str], scale: str, seed: int) -> list[Measurement]:
    """Return the results that a folder has.

    Raise EarmarkError when it cannot take others of a scale and a seed: it has others, or one that cannot be read.
    """
    measurements = read_all(folder, keys)
    for measurement in measurements[:1]:
        for what, has, wanted in (("scale", measurement.scale, scale), ("seed", measurement.seed, seed)):
            if has != wanted:
                raise EarmarkError(
                    f"{folder} has results of {what} {has}, expected {wanted}: results of two {what}s need two folders"
                )
    return measurements


def read_all(folder: Path, keys: Iterable[str]) -> list[Measurement]:
    """Read the results that a folder has of these experiments ("vcr/figure-6"), in their order.

    All are of one scale and one seed.
    """
    files = [folder / f"{key}.json" for key in keys]
    measurements = [read(file) for file in files if file.exists()]
    for what in ("scale", "seed"):
        if len(several := {getattr(measurement, what) for measurement in measurements}) > 1:
            raise EarmarkError(
                f"{folder} has results of several {what}s, {sorted(several)}; expected one {what} per folder"
            )
    return measurements
