"""A plan: which index a segment has, what else was considered, what was estimated and what was measured."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from earmark.errors import require
from earmark.index.auto.facts import Facts
from earmark.language.words import counted
from earmark.notebook import html_table

MOST_CANDIDATES, MOST_OPTIONS = 64, 16
_TEXT = 200
LEAST_WORK = 1_000.0
"""An event that takes no more work than this never takes more than was planned."""
BEHIND_AT_ONCE = "far behind on a small sample"
COMPILING = "being compiled in the background, so it did not race yet"
UNITS = "costs: µs per single event plus µs per event in a batch"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An index that was considered. Costs are microseconds: one event alone and one of a batch, added up."""

    index: str
    estimated: float
    """By the statistics alone."""
    measured: float | None = None
    """On the sample; None where it did not race."""
    expected: float | None = None
    """The measured cost at the size of the segment."""
    note: str = ""
    options: Mapping[str, int] = field(default_factory=dict)
    """Those that are not the defaults."""

    @property
    def label(self) -> str:
        """The index with its options, such as `bitsets(buckets=64)`."""
        given = ", ".join(f"{name}={value}" for name, value in self.options.items())
        return f"{self.index}({given})" if given else self.index


@dataclass(frozen=True, slots=True)
class Plan:
    """Why a segment has the index it has."""

    index: str
    subscriptions: int
    sampled: int
    """How many of them raced; 0 where the statistics were enough."""
    events: int
    recent: bool
    """Whether these were recent events; otherwise they were made from the subscriptions."""
    k: int
    """Planned for the k best; 0: for all matches."""
    facts: Facts
    candidates: tuple[Candidate, ...]
    """The chosen one first."""
    work: float
    """The work that an event of a batch is expected to take (`Work.nanoseconds`), or an event alone where batches are
    left to a scan; 0 where nothing raced."""
    seconds: float
    """That planning took."""
    alone: float = 0.0
    """The work that an event alone is expected to take; 0 where it is not known, and taken to be that in a batch."""

    @property
    def options(self) -> Mapping[str, int]:
        """The options that the index was built with, beside its defaults."""
        return self.candidates[0].options

    @property
    def missing(self) -> list[str]:
        """Candidates that could not race, because they were still being compiled."""
        return [one.index for one in self.candidates if one.note == COMPILING]

    @property
    def reason(self) -> str:
        """Why this index, in a sentence."""
        first, *others = self.candidates
        if first.expected is None and self.missing:
            names, are = " and ".join(map(repr, self.missing)), "is" if len(self.missing) == 1 else "are"
            return f"for now, while {names} {are} being compiled in the background"
        if first.expected is None:
            return first.note or "by the statistics"
        cost = f"expected {_us(first.expected)} µs per event"
        raced = [one for one in others if one.expected is not None]
        if not raced:
            return f"{cost}; the others were {BEHIND_AT_ONCE}"
        best = min(raced, key=lambda one: one.expected or math.inf)
        is_quicker = (best.expected or math.inf) < first.expected
        than = f"{cost}, '{best.label}' {_us(best.expected)}"
        return f"{than}; the difference is too small to matter" if is_quicker else than

    def planned_work(self, alone: bool) -> float:
        """The work that is expected for an event, alone or in a batch, and no less than is worth to be noticed."""
        return max(LEAST_WORK, self.alone if alone and self.alone else self.work)

    def record(self) -> dict[str, Any]:
        """The plan as JSON can store it."""
        return asdict(self) | {"facts": self.facts._asdict()}

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Plan:
        """The plan that was stored; AssertionError where it is none."""
        try:
            given = {**record, "facts": Facts(*(record["facts"][name] for name in Facts._fields))}
            require(0 < len(record["candidates"]) <= MOST_CANDIDATES, "a plan has no candidates, or too many")
            given["candidates"] = tuple(Candidate(**one) for one in record["candidates"])
            made = cls(**given)
        except (TypeError, KeyError, AttributeError) as problem:
            raise AssertionError(f"it is not a plan: {problem}") from None
        numbers: list[float] = [
            *made.facts,
            made.subscriptions,
            made.sampled,
            made.events,
            made.k,
            made.work,
            made.seconds,
            made.alone,
        ]
        numbers += [one.estimated for one in made.candidates]
        costs = [cost for one in made.candidates for cost in (one.measured, one.expected) if cost is not None]
        known = (isinstance(one, int | float) and math.isfinite(one) for one in (*numbers, *costs))
        texts = [made.index, *(text for one in made.candidates for text in (one.index, one.note))]
        named = all(_is_name(text) for text in texts) and all(_are_options(one.options) for one in made.candidates)
        require(all(known) and named, "a plan has something else where numbers and names should be")
        return made


def _is_name(text: Any) -> bool:
    return isinstance(text, str) and len(text) <= _TEXT and text.isprintable()


def _are_options(options: Any) -> bool:
    if not isinstance(options, dict) or len(options) > MOST_OPTIONS:
        return False
    return all(_is_name(name) and type(value) is int for name, value in options.items())


class Plans(tuple[Plan, ...]):
    """The plans of a matcher's segments, the largest first; reads well on a terminal and in a notebook."""

    def __repr__(self) -> str:
        return "\n\n".join(map(_text, self)) or "no segment has been planned"

    def _repr_html_(self) -> str:
        return "".join(map(_html, self)) or "<p>no segment has been planned</p>"


def _headline(plan: Plan) -> str:
    return f"{counted(plan.subscriptions, 'subscription')}: '{plan.candidates[0].label}', {plan.reason}"


def _about(plan: Plan) -> list[str]:
    facts = plan.facts
    asked = f"the {plan.k} best" if plan.k else "all matches"
    if not plan.events:
        return [f"planned for {asked} in {plan.seconds * 1e3:.0f} ms", UNITS]
    source = counted(plan.events, "recent event" if plan.recent else "event") + (
        "" if plan.recent else " made from subscriptions"
    )
    raced = f", {plan.sampled:,} subscriptions raced" if plan.sampled else ""
    return [
        f"planned for {asked} in {plan.seconds * 1e3:.0f} ms, by {source}{raced}",
        f"clauses: {facts.constraints:.1f} constraints on {counted(facts.attributes, 'attribute')}, {facts.alike:.0%}"
        " of them on a set of attributes that many have",
        f"an event: has all attributes of {facts.met:.1%} of the clauses, satisfies the narrowest constraint of"
        f" {facts.narrow:.2%}, matches {facts.matched:.3%}",
        UNITS,
    ]


def _rows(plan: Plan) -> Iterable[tuple[str, ...]]:
    yield "index", "estimated", "measured", "expected", ""
    for one in plan.candidates:
        costs = (_us(cost) if cost is not None else "" for cost in (one.estimated, one.measured, one.expected))
        yield one.label, *costs, one.note


def _text(plan: Plan) -> str:
    rows = list(_rows(plan))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = [[row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)), row[4]] for row in rows]
    return "\n  ".join([_headline(plan), *_about(plan), *("  ".join(line).rstrip() for line in lines)])


def _html(plan: Plan) -> str:
    head, *rows = _rows(plan)
    about = "<br>".join(map(html.escape, _about(plan)))
    return f"{html_table(_headline(plan), head, rows)}<p>{about}</p>"


def _us(cost: float | None) -> str:
    if cost is None:
        return ""
    return f"{cost:,.0f}" if cost >= 100 else f"{cost:.1f}"
