"""Numbers of results, cited in a sentence by where they are, so that none is typed by hand.

A *place* is `PANEL; SERIES; X` (the median), or `PANEL; SERIES; X; COUNT` (an operation count). X is as the tables
print it, or `first`, `last`, or `*` for all. Before it is the experiment: `vcr/figure-6 > PANEL; SERIES; X`; after
`over` it is that of the first place, unless given. In the explanation of a claim the first is that of the claim, unless
given (`figure-8 > …` is one of the same paper), and `.` is the claim's own panel, or series.

    PLACE                     the number                                              1,531   0.05
    rounded: PLACE            the number, a long count as millions                    8.58 million
    as percent: PLACE         a share between 0 and 1                                 20.4 %
    per x: PLACE              the number divided by X, such as subscriptions          3.98
    printed: PLACE            what the paper prints there                             209
    least: PLACE              the least sample; with X `*` the least of all X         4.5
    greatest: PLACE           the greatest, likewise
    spread: PLACE             greatest sample less least, of the median; of all X the greatest   17 %
    ratio: PLACE over PLACE   the first divided by the second                         2.1×
    least ratio, greatest ratio: PLACE over PLACE    of all X that both have (`*`)
    percent: PLACE over PLACE how far the ratio is from 1                             4 %
    least percent, greatest percent: PLACE over PLACE    likewise, of all X that both have
    share: PLACE over PLACE   the first as a share of the second                      27 %
    each: PLACE over PLACE    the first divided by the second, as a number: µs each   0.64
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from earmark.errors import EarmarkError
from earmark.report.claims import Claim
from earmark.report.claims.words import divided, number, percent, text_of, times
from earmark.report.experiment import Measurement, Point, Series, X

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")
EVERY, SAME = "*", "."
ENDS = {"first": 0, "last": -1}


class Unknown(EarmarkError):
    """An experiment that is cited is not among the measurements."""


class Cited(NamedTuple):
    """The points of a series that a citation is about, and which count of theirs; "" is the median."""

    points: list[Point]
    what: str
    printed: float | None
    """What the paper prints at the place, if it is one and the paper does."""

    def values(self) -> dict[X, float]:
        """Return the number at every place."""
        return {point.x: self.value(point) for point in self.points}

    def value(self, point: Point) -> float:
        """Return the number of one point."""
        return point.counts[self.what] if self.what else point.median

    def only(self) -> float:
        """Return the number, of which there must be one."""
        if len(self.points) != 1:
            raise EarmarkError("a citation of all places (*) needs least, greatest or spread")
        return self.value(self.points[0])

    def samples(self) -> list[float]:
        """Return the numbers of all places, or the samples of one."""
        if len(self.points) > 1 or self.what:
            return list(self.values().values())
        return self.points[0].samples


def filled_in(text: str, measurements: Sequence[Measurement], claim: Claim) -> str:
    """Return the explanation of a claim with its placeholders, {PLACE} and so on, replaced by numbers."""
    return PLACEHOLDER.sub(lambda found: cite(found[1], measurements, claim), text)


def cite(expression: str, measurements: Sequence[Measurement], claim: Claim | None = None) -> str:
    """Return the number that an expression cites, as text."""
    kind, colon, rest = expression.partition(":")
    name = " ".join(kind.split())
    if not colon or name not in KINDS:
        name, rest = "", expression
    wanted = 2 if name in PAIRS else 1
    places = [place.strip() for place in (rest.split(" over ") if wanted == 2 else [rest])]
    try:
        if len(places) != wanted:
            raise EarmarkError(f"expected {wanted} of PANEL; SERIES; X between ' over ', got {len(places)}")
        before = places[0].rpartition(" > ")[0] or (claim.key if claim else "")
        return KINDS[name](*(_cited(place, measurements, claim, before) for place in places))
    except Unknown:
        raise
    except EarmarkError as problem:
        where = f"claim {claim.paper}/{claim.id}: " if claim else ""
        raise EarmarkError(f"{where}{{{' '.join(expression.split())}}}: {problem}") from None


def _cited(place: str, measurements: Sequence[Measurement], claim: Claim | None, experiment: str) -> Cited:
    before, _, after = place.rpartition(" > ")
    parts = [" ".join(part.split()) for part in after.split(";")]
    key = " ".join(before.split()) or experiment
    if len(parts) not in (3, 4) or not key:
        raise EarmarkError("expected PAPER/EXPERIMENT > PANEL; SERIES; X, and perhaps the name of a count")
    measurement = _measurement(f"{claim.paper}/{key}" if claim and "/" not in key else key, measurements)
    panel, series = parts[:2]
    if claim is not None:
        panel = claim.panel if panel == SAME else panel
        series = str(claim.series) if series == SAME else series
    count = parts[3] if len(parts) == 4 else ""
    measurement.panel(panel)  # an error that names the panels
    line = measurement.find(panel, series)
    points = _points(line, parts[2], measurement.places(panel))
    for point in points:
        if not point.samples:
            raise EarmarkError(f"{series} at {text_of(point.x)} is {point.status}: {point.note}")
        if count and count not in point.counts:
            raise EarmarkError(f"{series} at {text_of(point.x)} has no count {count!r}, only {sorted(point.counts)}")
    printed = measurement.printed_at(panel, series, points[0].x) if len(points) == 1 else None
    return Cited(points, count, printed)


def _measurement(key: str, measurements: Sequence[Measurement]) -> Measurement:
    for measurement in measurements:
        if measurement.key == key:
            return measurement
    raise Unknown(f"there is no measurement of {key}")


def _points(line: Series, place: str, places: Sequence[X]) -> list[Point]:
    if place == EVERY:
        return line.points
    x = places[ENDS[place]] if place in ENDS else next((x for x in places if place in (text_of(x), str(x))), None)
    point = None if x is None else line.at(x)
    if point is None:
        raise EarmarkError(f"{line.name} was not measured at {place!r}, only at {[point.x for point in line.points]}")
    return [point]


def _ratios(first: Cited, second: Cited) -> list[float]:
    """Return the ratios at all places that both have."""
    ones, others = first.values(), second.values()
    return [divided(ones[x], others[x]) for x in ones if x in others]


def _spread(one: Cited) -> str:
    return percent(1 + max(divided(point.high - point.low, point.median) for point in one.points))


def _rounded(one: Cited) -> str:
    value = float(f"{one.only():.3g}")
    return number(value) if value < 1e6 else f"{number(value / 1e6)} million"


def _per_x(one: Cited) -> str:
    value, x = one.only(), one.points[0].x
    if isinstance(x, str):
        raise EarmarkError(f"expected a number to divide by, got {x!r}")
    return number(divided(value, x))


def _printed(one: Cited) -> str:
    if one.printed is None:
        raise EarmarkError("the paper prints nothing there")
    return number(one.printed)


def _from_1(ratio: float) -> float:
    return abs(ratio - 1)


KINDS: Mapping[str, Callable[..., str]] = {
    "": lambda one: number(one.only()),
    "rounded": _rounded,
    "as percent": lambda one: f"{number(100 * one.only(), [0, 100])} %",
    "per x": _per_x,
    "printed": _printed,
    "least": lambda one: number(min(one.samples())),
    "greatest": lambda one: number(max(one.samples())),
    "spread": _spread,
    "ratio": lambda one, other: times(divided(one.only(), other.only())),
    "least ratio": lambda one, other: times(min(_ratios(one, other))),
    "greatest ratio": lambda one, other: times(max(_ratios(one, other))),
    "percent": lambda one, other: percent(divided(one.only(), other.only())),
    "least percent": lambda one, other: percent(min(_ratios(one, other), key=_from_1)),
    "greatest percent": lambda one, other: percent(max(_ratios(one, other), key=_from_1)),
    "share": lambda one, other: f"{number(100 * divided(one.only(), other.only()))} %",
    "each": lambda one, other: number(divided(one.only(), other.only())),
}
PAIRS = ("ratio", "least ratio", "greatest ratio", "percent", "least percent", "greatest percent", "share", "each")
