"""What an experiment measures with: one protocol for every figure.

Contenders take turns, so that a busy moment of the machine hits them alike; the order rotates from turn to turn. The
first turn warms up and does not count. Every answer is checked, outside the clock. The clock is processor time of the
thread, unless asked otherwise: everything compared here runs in one thread, and other work on the machine then counts
less. The garbage collector waits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from earmark.report.experiment import OK, SKIPPED, WRONG, Experiment, Point, Series, X
from earmark.report.protocol import clocked

T = TypeVar("T")

SEED = 2003
TURNS = {"tiny": 2, "quick": 3, "full": 7}
MICROSECONDS = 1e6


class Bench:
    """The parameters of one run of one experiment, and what it has measured so far."""

    def __init__(self, experiment: Experiment, scale: str, seed: int = SEED) -> None:
        self.experiment = experiment
        self.scale = scale
        self.seed = seed
        self.turns = TURNS[scale]
        self.drawn_from: dict[str, str] = {}
        """What else the data depends on, by name: kept with the parameters."""
        self._series: dict[tuple[str, str], Series] = {}

    def __getitem__(self, parameter: str) -> Any:
        """Return a parameter of the scale."""
        return self.experiment.scales[self.scale][parameter]

    @property
    def series(self) -> list[Series]:
        """Everything measured so far."""
        return list(self._series.values())

    def record(
        self,
        panel: str,
        series: str,
        x: X,
        samples: Sequence[float],
        counts: Mapping[str, float] | None = None,
        status: str = OK,
        note: str = "",
        wrong: str = "",
    ) -> None:
        """Add a point: one or more samples in the panel's unit, and operation counts beside them.

        `wrong` says how the answers behind them are wrong: then the point has no samples.
        """
        if panel not in {one.name for one in self.experiment.panels}:
            raise ValueError(f"{self.experiment.key} has no panel {panel!r}")
        counted = {name: float(value) for name, value in (counts or {}).items()}
        right = [] if wrong else [float(value) for value in samples]
        point = Point(x, right, counted, WRONG if wrong else status, wrong or note)
        self._series.setdefault((panel, series), Series(panel, series, [])).points.append(point)

    def skip(self, panel: str, series: str, x: X, note: str) -> None:
        """Add a point that was not measured, and why."""
        self.record(panel, series, x, [], status=SKIPPED, note=note)

    def race(
        self,
        panel: str,
        x: X,
        ways: Mapping[str, Callable[[int], T]],
        *,
        per: float | Mapping[str, float] = 1,
        calls: int = 1,
        factor: float = MICROSECONDS,
        turns: int | None = None,
        check: Callable[[str, int, T], str] | None = None,
        counts: Mapping[str, Mapping[str, float]] | None = None,
        clock: str = "thread",
    ) -> dict[str, float]:
        """Time contenders in turns, and add one point for each; return their medians (NaN where an answer is wrong).

        A way is called `calls` times in each turn, with the number of the call, so that it can take other events each
        time; turn 0 is the warm-up. A sample is the time of a turn in seconds, times `factor`, divided by `per`: µs per
        search when `per` is the number of searches in a turn (a number, or one for each way). `check` gets the name of
        the way, the number of the call and the answer, and returns how it is wrong, or "". `counts` are looked up when
        all turns are over, so ways may fill them in.
        """
        samples: dict[str, list[float]] = {name: [] for name in ways}
        wrong: dict[str, str] = dict.fromkeys(ways, "")
        names = list(ways)
        for turn in range((turns or self.turns) + 1):
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                seconds = 0.0
                for call in range(turn * calls, turn * calls + (calls if turn else 1)):
                    took, answer = clocked(functools.partial(ways[name], call), clock)
                    seconds += took
                    if check is not None:
                        wrong[name] = wrong[name] or check(name, call, answer)
                    del answer
                if turn:
                    searches = per[name] if isinstance(per, Mapping) else per
                    samples[name].append(seconds * factor / searches)
        for name in names:
            self.record(panel, name, x, samples[name], (counts or {}).get(name), wrong=wrong[name])
        return {name: self._series[panel, name].points[-1].median for name in names}
