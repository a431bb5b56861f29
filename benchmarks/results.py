"""The one form of a result: JSON, version 1.

    {"version": 1, "program": "run", "made": "2025-01-31T12:00:00+00:00",
     "machine": {...},                       protocol.machine()
     "settings": {...},                      what the program was asked
     "figures": [{
        "workload": "w2", "subscriptions": 100000, "engine": "scan",
        "what": "batch",                     what was measured: a way of searching, "build", "memory", ...
        "status": "ok",                      ok | wrong | skipped | failed
        "unit": "µs/event",                  of the values; less is better
        "values": [31.0, 31.4, 30.9],        one a repeat, of all rounds; empty unless status is ok
        "events": 1000,                      how many events a repeat answered; 0 where that means nothing
        "note": ""}]}                        why it was skipped, how it was wrong, ...

A reader that finds another version refuses. A wrong answer has no values: it cannot look fast.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from earmark.errors import EarmarkError
from earmark.report.protocol import Summary, machine, summary

VERSION = 1
PER_EVENT = "µs/event"
"""The unit of every search."""
STATUSES = ("ok", "wrong", "skipped", "failed")


@dataclass(frozen=True)
class Figure:
    """A series of measurements of one thing."""

    workload: str
    subscriptions: int
    engine: str
    what: str
    unit: str
    values: list[float] = field(default_factory=list)
    status: str = "ok"
    events: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES or (self.status == "ok") != bool(self.values):
            raise ValueError(f"a figure is ok and has values, or neither: {self}")

    @property
    def key(self) -> tuple[str, int, str, str]:
        """What makes it the same figure in another result."""
        return self.workload, self.subscriptions, self.engine, self.what

    @property
    def summary(self) -> Summary:
        """Median, least and greatest; only of a figure that is ok."""
        return summary(self.values)


def pooled(figures: Iterable[Figure]) -> list[Figure]:
    """The same figure of several rounds as one, with the values of all; one wrong round makes it wrong."""
    by_key: dict[tuple[str, int, str, str], list[Figure]] = {}
    for one in figures:
        by_key.setdefault(one.key, []).append(one)
    out = []
    for rounds in by_key.values():
        best = min(rounds, key=lambda one: ("wrong", "failed", "ok", "skipped").index(one.status))
        values = [value for one in rounds for value in one.values] if best.status == "ok" else []
        out.append(replace(best, values=values))
    return out


@dataclass(frozen=True)
class Result:
    """What one run of a program measured."""

    program: str
    settings: dict[str, Any]
    figures: list[Figure]
    machine: dict[str, Any] = field(default_factory=machine)
    made: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    version: int = VERSION

    def write(self, file: Path) -> None:
        """Write the JSON aside, then put it in its place."""
        aside = file.with_name(file.name + ".part")
        aside.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        aside.replace(file)


def read(file: Path) -> Result:
    """A result from its file; EarmarkError says what is wrong with it."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise EarmarkError(f"{file}: {problem.strerror}.") from None
    except ValueError:
        raise EarmarkError(f"{file} is not JSON.") from None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        version = found.get("version") if isinstance(found, dict) else None
        raise EarmarkError(f"{file} is not a benchmark result of version {VERSION} (version: {version}).")
    known = {one.name for one in fields(Figure)}
    try:
        figures = [Figure(**{name: one[name] for name in known & one.keys()}) for one in found["figures"]]
        return Result(found["program"], found["settings"], figures, found["machine"], found["made"])
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise EarmarkError(f"{file} is not a benchmark result: {problem}.") from None
