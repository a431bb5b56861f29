"""Claims of the papers, one TOML file per paper: what each says, and how a measurement is judged by it.

A claim is about a *quantity* at some places (x) of one panel: the median of a series, of one of its operation counts
(`count`), or its ratio to (or `how = "difference"` from) another series (`over`, perhaps of another panel,
`over_panel`); with `against_panel` it is that, divided by the same quantity of another panel. The rules are a closed
set:

    between    at every place the quantity is at least `least` and at most `most` (either may be left out)
    growth     the quantity at the last place, divided by that at the first, is between `least` and `most`
    monotone   the quantity only rises (`direction = "up"`) or only falls ("down") from place to place; `slack`
    best       the place with the least quantity is one of `expected`, or one of those is within `slack` of the least
    shift      the place (a number) with the least quantity is at least `least` times that in the panel `over_panel`
    first      `series` is the least of its panel, or among `rivals`, at every place; the next is at least `least` times
               as much
    last       `series` is the greatest of its panel, or among `rivals`, at every place, at least `least` times the next
    spread     at every place the greatest of the panel, divided by the least, is between `least` and `most`
    order      the quantities of all `series` (a list), in this order, do not fall, at every place; `slack`
    printed    the quantity is within `within` (0.1 is 10 %) of the number that the paper prints, where it prints one

`at` lists the places; without it, all. "first" and "last" are the ends of the panel, whatever the scale. `slack` is a
factor (1.05 forgives 5 %), 1 unless given. `scales` lists the scales at which a claim is judged: both, or only full.

Claims are counted apart by their *kind*:

    paper      what the paper says, in its setting, written before the committed run
    added      the same, but written when that run was known (`added = true`)
    variant    a claim of the paper in a setting of ours, or one that we read into it (`variant = true`)
    replaced   its rule does not judge its sentence; another one does (`replaced_by`)
    ours       a bar of our own (`section = "ours"`)

A claim about a place that was not measured, or whose answer was wrong, fails. One that was added later is left out
where an earlier run did not record what it is about. Rules and limits are written before the run that judges them and
not changed after it; `explanations/` says why the failing ones fail.

A verdict names the number that decides and the limit that it is compared with (`words.py`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from importlib import resources
from itertools import pairwise
from typing import Any, NamedTuple

from earmark.errors import EarmarkError
from earmark.report.claims.words import (
    all_times,
    divided,
    limit_of,
    number,
    numbers,
    percent,
    text_of,
    times,
)
from earmark.report.experiment import Measurement, Series, X

HOLDS, FAILS = "holds", "fails"
JUDGED = ("quick", "full")
PAPER, ADDED, VARIANT, REPLACED, OURS = "paper", "added", "variant", "replaced", "ours"
KINDS = {
    PAPER: "claims of the paper{s}",
    ADDED: "added after the run",
    VARIANT: "in settings of ours",
    REPLACED: "replaced",
    OURS: "bars of our own",
}
"""Kinds of claims, and what they are called where they are counted."""
LIMITED = ("between", "growth", "spread", "shift")


@dataclass(frozen=True)
class Claim:
    """One claim of a paper, and the rule by which it is judged."""

    paper: str
    id: str
    section: str
    text: str
    experiment: str
    panel: str
    rule: str
    series: str | list[str]
    over: str = ""
    over_panel: str = ""
    against_panel: str = ""
    how: str = "ratio"
    count: str = ""
    at: tuple[X, ...] = ()
    least: float | None = None
    most: float | None = None
    direction: str = "up"
    slack: float = 1.0
    expected: tuple[X, ...] = ()
    rivals: tuple[str, ...] = ()
    within: float = 0.1
    scales: tuple[str, ...] = JUDGED
    added: bool = False
    variant: bool = False
    replaced_by: str = ""

    def __post_init__(self) -> None:
        problem = (
            f"unknown rule {self.rule!r}" if self.rule not in RULES
            else f"direction must be up or down, got {self.direction!r}" if self.direction not in ("up", "down")
            else f"how must be ratio or difference, got {self.how!r}" if self.how not in ("ratio", "difference")
            else f"scales must be among {JUDGED}, got {self.scales}" if not set(self.scales) <= set(JUDGED)
            else "needs least or most" if self.rule in LIMITED and self.least is self.most is None
            else "needs expected" if self.rule == "best" and not self.expected
            else "needs several series" if (self.rule == "order") != isinstance(self.series, list)
            else "needs over_panel" if self.rule == "shift" and not self.over_panel
            else ""
        )  # fmt: skip
        if problem:
            raise EarmarkError(f"claim {self.paper}/{self.id}: {problem}")

    @property
    def key(self) -> str:
        """ "vcr/figure-6"."""
        return f"{self.paper}/{self.experiment}"

    @property
    def kind(self) -> str:
        """Which of `KINDS` it is counted with."""
        marks = {OURS: self.section == OURS, REPLACED: self.replaced_by, VARIANT: self.variant, ADDED: self.added}
        return next((kind for kind, marked in marks.items() if marked), PAPER)

    @property
    def where(self) -> str:
        """The section of the paper, and why it is counted apart."""
        notes = {REPLACED: f"replaced by {self.replaced_by}", VARIANT: "a setting of ours", ADDED: KINDS[ADDED]}
        return f"{self.section}; {notes[self.kind]}" if self.kind in notes else self.section


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds in a measurement, with the number that decides."""

    claim: Claim
    status: str
    detail: str

    @property
    def holds(self) -> bool:
        """Whether the claim holds."""
        return self.status == HOLDS

    def __str__(self) -> str:
        return f"{self.status}, {self.detail}" if self.holds else f"{self.status}: {self.detail}"


class Count(NamedTuple):
    """How many claims hold, of how many."""

    held: int
    claims: int

    def __str__(self) -> str:
        return f"{self.held} of {self.claims}"


def tally(group: Iterable[Verdict]) -> dict[str, Count]:
    """Count verdicts by the kind of their claims; kinds without a claim are left out."""
    holds: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for verdict in group:
        holds[verdict.claim.kind].append(verdict.holds)
    return {kind: Count(sum(some), len(some)) for kind, some in holds.items() if some}


class Unmeasured(Exception):
    """A place that a claim is about has no number; the message says why."""


class Unrecorded(EarmarkError):
    """A measurement has no such series, or no such count."""


def claims_of(paper: str) -> list[Claim]:
    """Return the claims of a paper."""
    file = resources.files(__package__) / f"{paper}.toml"
    if not file.is_file():
        return []
    rows = tomllib.loads(file.read_text(encoding="utf-8")).get("claim", [])
    claims = [_claim(paper, row) for row in rows]
    ids = [claim.id for claim in claims]
    if len(set(ids)) < len(ids):
        raise EarmarkError(f"{paper}.toml: two claims have the same id")
    return claims


def _claim(paper: str, row: dict[str, Any]) -> Claim:
    known = {field.name for field in fields(Claim)} - {"paper"}
    if not set(row) <= known:
        raise EarmarkError(f"{paper}.toml: claim {row.get('id')!r} has unknown fields {sorted(set(row) - known)}")
    listed = {
        name: tuple(value) if name != "series" else value for name, value in row.items() if isinstance(value, list)
    }
    return Claim(paper=paper, **(row | listed))


def verdicts(measurement: Measurement, claims: Iterable[Claim] | None = None) -> list[Verdict]:
    """Return the verdict on every claim about an experiment that is judged at the scale of the measurement."""
    judged = []
    for claim in claims_of(measurement.paper) if claims is None else claims:
        if claim.key == measurement.key and measurement.scale in claim.scales:
            try:
                judged.append(judge(claim, measurement))
            except Unrecorded:
                if not claim.added:
                    raise
    return judged


def judge(claim: Claim, measurement: Measurement) -> Verdict:
    """Return the verdict on one claim."""
    try:
        holds, detail = RULES[claim.rule](claim, measurement)
    except Unmeasured as why:
        return Verdict(claim, FAILS, str(why))
    return Verdict(claim, HOLDS if holds else FAILS, detail)


# --- quantities -----------------------------------------------------------------------------------------------------


def _places(claim: Claim, measurement: Measurement) -> list[X]:
    places = measurement.places(claim.panel)
    if not places:
        raise Unmeasured(f"nothing was measured for {claim.panel}")
    ends = {"first": places[0], "last": places[-1]}
    return [ends.get(x, x) if isinstance(x, str) else x for x in claim.at] or places


def _value(series: Series, x: X, count: str) -> float:
    point = series.at(x)
    if point is None:
        raise Unmeasured(f"{series.name} was not measured at {text_of(x)}")
    if not point.samples:
        raise Unmeasured(f"{series.name} at {text_of(x)} is {point.status}: {point.note}")
    if count and count not in point.counts:
        raise Unrecorded(f"{series.panel!r}, {series.name!r}: no count {count!r}, only {sorted(point.counts)}")
    return point.counts[count] if count else point.median


def _quantity(claim: Claim, measurement: Measurement, x: X, name: str = "") -> float:
    """Return the quantity of a claim at one place."""
    value = _in_panel(claim, measurement, claim.panel, x, name)
    return divided(value, _in_panel(claim, measurement, claim.against_panel, x, name)) if claim.against_panel else value


def _in_panel(claim: Claim, measurement: Measurement, panel: str, x: X, name: str = "") -> float:
    """Return the quantity of a claim in a panel."""
    value = _value(_series(measurement, panel, name or str(claim.series)), x, claim.count)
    if not claim.over:
        return value
    other = _value(_series(measurement, claim.over_panel or panel, claim.over), x, claim.count)
    return value - other if claim.how == "difference" else divided(value, other)


def _series(measurement: Measurement, panel: str, name: str) -> Series:
    try:
        return measurement.find(panel, name)
    except EarmarkError as problem:
        raise Unrecorded(str(problem)) from None


def _is_ratio(claim: Claim) -> bool:
    return bool(claim.over and claim.how == "ratio") or bool(claim.against_panel)


def _shown(claim: Claim, value: float, measurement: Measurement, limits: Sequence[float] = ()) -> str:
    return times(value, limits) if _is_ratio(claim) else f"{number(value, limits)} {_unit(claim, measurement)}"


def _shown_all(claim: Claim, values: Sequence[float], measurement: Measurement) -> str:
    """Return values with their unit once: "1, 2, 3 MiB". Neighbours look equal only where they are."""
    if _is_ratio(claim):
        return ", ".join(all_times(values))
    return f"{', '.join(numbers(values))} {_unit(claim, measurement)}"


def _unit(claim: Claim, measurement: Measurement) -> str:
    return claim.count or measurement.panel(claim.panel).unit


def _limits(claim: Claim) -> list[float]:
    return [limit for limit in (claim.least, claim.most) if limit is not None]


def _expected(least: float | None, most: float | None = None, unit: str = "×") -> str:
    """Return limits as text: "expected at least 2×", "expected 0.9× to 1.1×"."""
    low, high = ("" if limit is None else limit_of(limit) + unit for limit in (least, most))
    if low and high:
        return f"expected {low} to {high}"
    return f"expected at least {low}" if low else f"expected at most {high}"


def _forgiven(slack: float) -> str:
    return f"; up to {limit_of(slack)}× is forgiven" if slack > 1 else ""


# --- rules ----------------------------------------------------------------------------------------------------------


def _between(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    values = {x: _quantity(claim, measurement, x) for x in _places(claim, measurement)}
    worst = min(values, key=lambda x: _margin(values[x], claim))
    shown = _shown(claim, values[worst], measurement, _limits(claim))
    among = f", the least favourable of {len(values)}" if len(values) > 1 else ""
    expected = _expected(claim.least, claim.most, "×" if _is_ratio(claim) else "")
    detail = f"{shown} at {_axis(claim, measurement)} {text_of(worst)}{among}; {expected}"
    return _margin(values[worst], claim) >= 0, detail


def _margin(value: float, claim: Claim) -> float:
    """Return how far a value is inside the limits; negative outside. NaN counts as outside."""
    limits = [value - claim.least] if claim.least is not None else []
    limits += [claim.most - value] if claim.most is not None else []
    least = min(limits)
    return least if least == least else float("-inf")


def _growth(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    places = _places(claim, measurement)
    grown = divided(_quantity(claim, measurement, places[-1]), _quantity(claim, measurement, places[0]))
    where = f"from {_axis(claim, measurement)} {text_of(places[0])} to {text_of(places[-1])}"
    return _margin(grown, claim) >= 0, f"{times(grown, _limits(claim))} {where}; {_expected(claim.least, claim.most)}"


def _monotone(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    places = _places(claim, measurement)
    values = [_quantity(claim, measurement, x) for x in places]
    up = claim.direction == "up"
    holds, backwards = True, []
    for ends, (before, after) in zip(pairwise(places), pairwise(values), strict=True):
        low, high = (before, after) if up else (after, before)
        holds = holds and low <= high * claim.slack
        if low > high:
            backwards.append((divided(low, high), high, ends))
    detail = _shown_all(claim, values, measurement)
    if backwards:
        ratio, high, (start, end) = max(backwards, key=lambda step: step[0])
        turn = "a fall" if up else "a rise"
        factor = f" of {times(ratio, [1.0, claim.slack])}" if high > 0 else ""
        where = f"from {_axis(claim, measurement)} {text_of(start)} to {text_of(end)}"
        detail += f"; {turn}{factor} {where}{_forgiven(claim.slack)}"
    return holds, detail


def _best(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    values = {x: _quantity(claim, measurement, x) for x in _places(claim, measurement)}
    best = min(values, key=lambda x: values[x])
    near = [x for x in values if values[x] <= values[best] * claim.slack]
    where = f"at {_axis(claim, measurement)} {text_of(best)}"
    if best in claim.expected:
        return True, f"the least is {_shown(claim, values[best], measurement)} {where}"
    if missing := [x for x in claim.expected if x not in values]:
        shown = _shown(claim, values[best], measurement)
        return False, f"the least is {shown} {where}; {text_of(missing[0])} was not measured"
    there = min(values[x] for x in claim.expected)
    least, ours = (all_times if _is_ratio(claim) else numbers)([values[best], there])
    unit = "" if _is_ratio(claim) else f" {_unit(claim, measurement)}"
    expected = " or ".join(text_of(x) for x in claim.expected)
    ratio = times(divided(there, values[best]), [1.0, claim.slack])
    detail = f"the least is {least}{unit} {where}, against {ours}{unit} at {expected}, which is {ratio} as much"
    return bool(set(near) & set(claim.expected)), f"{detail}{_forgiven(claim.slack)}"


def _shift(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    bests = []
    for panel in (claim.panel, claim.over_panel):
        values = {x: _in_panel(claim, measurement, panel, x) for x in _places(claim, measurement)}
        bests.append(min(values, key=lambda x: values[x]))
    ratio = divided(float(bests[0]), float(bests[1]))
    ours, theirs = map(text_of, bests)
    detail = f"the least is at {_axis(claim, measurement)} {ours}, against {theirs} ({claim.over_panel})"
    return _margin(ratio, claim) >= 0, f"{detail}, {times(ratio, _limits(claim))}; {_expected(claim.least, claim.most)}"


def _first(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    return _leads(claim, measurement, lambda value, others: (min(others), divided(min(others)[0], value)))


def _last(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    return _leads(claim, measurement, lambda value, others: (max(others), divided(value, max(others)[0])))


def _leads(
    claim: Claim,
    measurement: Measurement,
    compared: Callable[[float, list[tuple[float, str]]], tuple[tuple[float, str], float]],
) -> tuple[bool, str]:
    """Judge how far a series is ahead of (or behind) its nearest rival; `compared` returns the rival and the ratio."""
    everyone = [series.name for series in measurement.of_panel(claim.panel)]
    rivals = [name for name in claim.rivals or everyone if name != claim.series]
    leads = []
    for x in _places(claim, measurement):
        others = [(_quantity(claim, measurement, x, name), name) for name in rivals]
        (_, rival), lead = compared(_quantity(claim, measurement, x), others)
        leads.append((lead, rival, x))
    lead, rival, x = min(leads, key=lambda row: row[0] if row[0] == row[0] else float("-inf"))
    least = 1.0 if claim.least is None else claim.least
    detail = f"{times(lead, [least])} against {rival} at {_axis(claim, measurement)} {text_of(x)}"
    return lead >= least, f"{detail}; {_expected(least)}"


def _spread(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    everyone = [series.name for series in measurement.of_panel(claim.panel)]
    spreads = {}
    for x in _places(claim, measurement):
        values = [(_quantity(claim, measurement, x, name), name) for name in everyone]
        spreads[x] = divided(max(values)[0], min(values)[0]), max(values)[1], min(values)[1]
    worst = min(spreads, key=lambda x: _margin(spreads[x][0], claim))
    spread, slowest, fastest = spreads[worst]
    ratio = times(spread, _limits(claim))
    detail = f"{slowest} is {ratio} {fastest} at {_axis(claim, measurement)} {text_of(worst)}"
    return _margin(spread, claim) >= 0, f"{detail}; {_expected(claim.least, claim.most)}"


def _order(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    places = _places(claim, measurement)
    pairs = []
    for x in places:
        values = [(_quantity(claim, measurement, x, name), name) for name in claim.series]
        for (low, first), (high, second) in pairwise(values):
            ratio = divided(low, high) if low != high else 1.0
            detail = (
                f"{first} is {times(ratio, [1.0, claim.slack])} {second} at {_axis(claim, measurement)} {text_of(x)}; "
                + _expected(None, claim.slack)
            )
            if not low <= high * claim.slack:
                return False, detail
            pairs.append((ratio, detail))
    _, closest = max(pairs, key=lambda pair: pair[0])
    among = f"at all {len(places)} places, the closest: " if len(places) > 1 else ""
    return True, among + closest


def _printed(claim: Claim, measurement: Measurement) -> tuple[bool, str]:
    series = str(claim.series)
    rows = []
    for x in _places(claim, measurement):
        theirs = measurement.printed_at(claim.panel, series, x)
        if theirs is not None:
            ours = _quantity(claim, measurement, x)
            rows.append((abs(divided(ours, theirs) - 1), ours, theirs, x))
    if not rows:
        raise Unmeasured(f"the paper prints nothing for {series} where it was measured")
    off, ours, theirs, x = max(rows, key=lambda row: row[0])
    share = percent(1 + off, [1 + claim.within])
    shown, printed = numbers([ours, theirs])
    detail = f"{shown} against {printed} printed at {_axis(claim, measurement)} {text_of(x)}"
    among = f", the furthest off of {len(rows)}" if len(rows) > 1 else ""
    return off <= claim.within, f"{detail}, {share} off{among}; expected at most {percent(1 + claim.within)}"


def _axis(claim: Claim, measurement: Measurement) -> str:
    return measurement.panel(claim.panel).x


RULES: dict[str, Callable[[Claim, Measurement], tuple[bool, str]]] = {
    "between": _between,
    "growth": _growth,
    "monotone": _monotone,
    "best": _best,
    "shift": _shift,
    "first": _first,
    "last": _last,
    "spread": _spread,
    "order": _order,
    "printed": _printed,
}
