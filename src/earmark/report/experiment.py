"""What an experiment is, and what it measured.

Experiment ── run at a scale ──► Measurement
                                   └─ Series (panel, name)
                                        └─ Point (x, samples, counts)
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.report.bench import Bench

SCALES = ("tiny", "quick", "full")
KINDS = ("lines", "bars", "table")
OK, WRONG, SKIPPED = "ok", "wrong", "skipped"
STATUSES = (OK, WRONG, SKIPPED)

X = float | int | str
"""Where a point is on the x axis: a number, or the name of a row."""


class Panel(NamedTuple):
    """One part of a figure, (a) or (b), or a table: what is on its axes."""

    name: str
    x: str
    unit: str
    kind: str = "lines"
    """"lines" over numbers, "bars" over names, or "table", which is not drawn."""
    log_x: bool = False
    log_y: bool = False


class Printed(NamedTuple):
    """A number that the paper prints, and the point of ours that it belongs to."""

    panel: str
    series: str
    x: X
    value: float


@dataclass(frozen=True)
class Point:
    """What was measured of one series at one place.

    `samples` are in the panel's unit, one for each turn. `counts` are operation counts by name, such as nodes visited,
    in whatever unit the name says. A point that is not ok has no samples, and `note` says why.
    """

    x: X
    samples: list[float]
    counts: dict[str, float] = field(default_factory=dict)
    status: str = OK
    note: str = ""

    def __post_init__(self) -> None:
        if self.status not in STATUSES or (self.status == OK) != bool(self.samples):
            raise EarmarkError(f"a point is ok and has samples, or neither: {self}")

    @property
    def median(self) -> float:
        """The middle sample; NaN when there is none."""
        return statistics.median(self.samples) if self.samples else float("nan")

    @property
    def low(self) -> float:
        """The least sample."""
        return min(self.samples, default=float("nan"))

    @property
    def high(self) -> float:
        """The greatest sample."""
        return max(self.samples, default=float("nan"))


@dataclass(frozen=True)
class Series:
    """One line of one panel: the points of one contender."""

    panel: str
    name: str
    points: list[Point]

    def at(self, x: X) -> Point | None:
        """Return the point at `x`."""
        return next((point for point in self.points if point.x == x), None)


@dataclass(frozen=True)
class Experiment:
    """One table or figure of a paper: the paper's setting, ours at each scale, and how to run it.

    `name` is "figure-6" or "table-2". `published` is the paper's setting, in a sentence; `setting` is ours, a format
    string over the parameters of a scale; `differs` says what else differs and why. `scales` has the parameters by
    scale, and `seconds` how long a scale takes, roughly. `notes` are what the paper prints that belongs to no point.
    """

    paper: str
    name: str
    title: str
    section: str
    published: str
    setting: str
    panels: Sequence[Panel]
    scales: Mapping[str, Mapping[str, Any]]
    run: Callable[[Bench], Iterator[None]]
    seconds: Mapping[str, float] = field(default_factory=dict)
    differs: str = ""
    printed: Sequence[Printed] = ()
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        missing = [scale for scale in SCALES if scale not in self.scales]
        known = {panel.name for panel in self.panels}
        if missing or any(panel.kind not in KINDS for panel in self.panels):
            raise EarmarkError(f"{self.key}: expected all of {SCALES} and panels of {KINDS}; missing: {missing}")
        if any(one.panel not in known for one in self.printed):
            raise EarmarkError(f"{self.key}: a printed number belongs to none of the panels {sorted(known)}")

    @property
    def key(self) -> str:
        """ "vcr/figure-6"."""
        return f"{self.paper}/{self.name}"

    @property
    def label(self) -> str:
        """ "Figure 6"."""
        return self.name.replace("-", " ").capitalize()

    def described(self, scale: str) -> str:
        """Return our setting at a scale, in a sentence."""
        return self.setting.format(**{name: _listed(value) for name, value in self.scales[scale].items()})


def _listed(value: Any) -> Any:
    """Return a list as text: "8, 16 and 32"; anything else as it is, so that a format string can format it."""
    if not isinstance(value, (list, tuple)):
        return value
    parts = [f"{part:,}" if isinstance(part, (int, float)) else str(part) for part in value]
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


@dataclass(frozen=True)
class Measurement:
    """What one run of one experiment found, with everything a reader needs to judge it."""

    paper: str
    name: str
    scale: str
    title: str
    section: str
    published: str
    setting: str
    differs: str
    parameters: dict[str, Any]
    seed: int
    panels: list[Panel]
    printed: list[Printed]
    notes: list[str]
    series: list[Series]
    seconds: float
    machine: dict[str, Any]
    date: str

    @property
    def key(self) -> str:
        """ "vcr/figure-6"."""
        return f"{self.paper}/{self.name}"

    @property
    def label(self) -> str:
        """ "Figure 6"."""
        return self.name.replace("-", " ").capitalize()

    def panel(self, name: str) -> Panel:
        """Return a panel by its name."""
        for panel in self.panels:
            if panel.name == name:
                return panel
        raise EarmarkError(f"{self.key} has no panel {name!r}; it has {[panel.name for panel in self.panels]}")

    def of_panel(self, panel: str) -> list[Series]:
        """Return the series of a panel."""
        return [series for series in self.series if series.panel == panel]

    def find(self, panel: str, name: str) -> Series:
        """Return one series."""
        for series in self.of_panel(panel):
            if series.name == name:
                return series
        known = [series.name for series in self.of_panel(panel)]
        raise EarmarkError(f"{self.key}, panel {panel!r}, has no series {name!r}; it has {known}")

    def places(self, panel: str) -> list[X]:
        """Return all x of a panel, in the order in which they were measured."""
        return list(dict.fromkeys(point.x for series in self.of_panel(panel) for point in series.points))

    def printed_at(self, panel: str, series: str, x: X) -> float | None:
        """Return what the paper prints for a point."""
        return next((p.value for p in self.printed if (p.panel, p.series, p.x) == (panel, series, x)), None)
