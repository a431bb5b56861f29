"""Why did it match, or not? The constraints of each clause: what was asked, what the event gave, whether it held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.events.arrays import EventArrays
from earmark.events.mappings import Interval, as_interval, value_at
from earmark.flat import bits
from earmark.flat.arrays import I32, U64
from earmark.keys.cuts import value_of_key
from earmark.keys.numbers import literal_at, position_at
from earmark.keys.schema import LIFE, Attribute, Kind, Schema
from earmark.language.parse import parse_clauses
from earmark.language.predicate import atom_sql, literal_sql, name_sql
from earmark.notebook import html_table
from earmark.segment.combine import BY_SUM, Combination, scoring_of
from earmark.segment.evaluate import ABSENT, clause_score, constraint_holds, find_attribute, static_score
from earmark.segment.evaluate import near_misses as find_near_misses
from earmark.segment.ids import Id
from earmark.segment.life import life_of, life_text, with_lives
from earmark.segment.segment import Segment

MISSING = None


@dataclass(frozen=True, slots=True)
class ConstraintExplanation:
    """One constraint of a clause: everything the clause asks of one attribute.

    `part` is its term of the score: `weight`, the subscription's, times `event_weight`; 0 when it does not hold or
    the event lacks the attribute.
    """

    attribute: str
    asked: str
    got: Any
    held: bool
    weight: float
    event_weight: float
    part: float

    def __str__(self) -> str:
        return f"{'✓' if self.held else '✗'} {self.asked}   ({self._given()})"

    def _given(self) -> str:
        if self.got is MISSING:
            return f"{self.attribute} is missing"
        if isinstance(self.got, Interval):
            return f"{self.attribute} in [{self.got.lo}, {self.got.hi}]"
        return f"{self.attribute} = {literal_sql(self.got.item() if hasattr(self.got, 'item') else self.got)}"

    def _product(self) -> str:
        """How the part comes about: the weight, times the event's where it has one."""
        if self.part == self.weight:
            return f"{self.part:g}"
        return f"{self.weight:g} × {self.event_weight:g} = {self.part:g}" if self.got is not MISSING else "0"


@dataclass(frozen=True, slots=True)
class ClauseExplanation:
    """One clause: it holds when all its constraints do."""

    constraints: tuple[ConstraintExplanation, ...]
    held: bool
    score: float | None

    def failing(self) -> tuple[ConstraintExplanation, ...]:
        """The constraints that did not hold."""
        return tuple(c for c in self.constraints if not c.held)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a subscription matches an event or not; `str()` is made for people, and adds up the score."""

    id: Id
    matched: bool
    score: float | None
    static_score: float
    """The subscription's own score, to which the constraints add their parts."""
    clauses: tuple[ClauseExplanation, ...]
    combine: str = "sum"
    """How the parts become one number, to which the static score is added (`Matcher`)."""

    def __str__(self) -> str:
        return "\n".join([f"{self.id!r} {self.verdict}", *self.lines()])

    def __repr__(self) -> str:
        return f"<Explanation: {self.id!r} {self.verdict}>"

    def _repr_html_(self) -> str:
        rows = [
            ("✓" if one.held else "✗", one.asked, one._given(), one._product(), number)
            for number, clause in enumerate(self.clauses, 1)
            for one in clause.constraints
        ]
        return html_table(f"{self.id!r} {self.verdict}", ("", "asked", "event", "score", "clause"), rows)

    @property
    def verdict(self) -> str:
        """Whether it matches, in words."""
        if self.score is None:
            return "does not match"
        return f"matches, score {self.score:g}" + (f" by {self.combine}" if self.combine != "sum" else "")

    def lines(self) -> list[str]:
        """One line per constraint; where a clause holds, in front of each its part of the score."""
        lines = []
        several = len(self.clauses) > 1
        for i, clause in enumerate(self.clauses, 1):
            if several:
                outcome = "fails" if clause.score is None else f"holds, score {clause.score:g}"
                lines.append(f"  clause {i} of {len(self.clauses)} {outcome}")
            indent = "    " if several else "  "
            lines.extend(f"{indent}{line}" for line in self._sum(clause))
        return lines or ["  ✗ always false"]

    def _sum(self, clause: ClauseExplanation) -> list[str]:
        constraints = [str(constraint) for constraint in clause.constraints] or ["✓ always true"]
        if clause.score is None:
            return constraints
        sign = "+ " if self.combine == "sum" else "  "
        parts = [f"{sign}{constraint._product()}" for constraint in clause.constraints] or [""]
        if self.static_score:
            parts.insert(0, f"  {self.static_score:g}")
            constraints.insert(0, "static score")
        width = max(map(len, parts))
        gap = "  " if width else ""
        return [f"{part:<{width}}{gap}{text}" for part, text in zip(parts, constraints, strict=True)]


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A subscription that almost matched: the constraints of its nearest clause that failed."""

    id: Id
    failing: tuple[ConstraintExplanation, ...]

    def __str__(self) -> str:
        return f"{self.id!r} misses by " + "; ".join(str(f) for f in self.failing)

    def __repr__(self) -> str:
        return f"<NearMiss: {self.id!r} misses by {'; '.join(f'{f.asked} ({f._given()})' for f in self.failing)}>"


def explain_slot(
    segment: Segment, slot: int, events: EventArrays, event: Mapping[str, Any], combination: Combination = BY_SUM
) -> Explanation:
    """The explanation of one slot and one event."""
    segment, slot = segment.pick(np.array([slot])), 0
    pairs = zip(_clauses_of(segment, slot), clause_texts(segment, slot), strict=True)
    clauses = tuple(explain_clause(segment, slot, clause, asked, events, event, combination) for clause, asked in pairs)
    scores = [c.score for c in clauses if c.score is not None]
    static = float(static_score(segment.arrays, slot))
    best = max(scores, default=None)
    return Explanation(segment.ids[slot], bool(scores), best, static, clauses, combination.name)


def explain_clause(
    segment: Segment,
    slot: int,
    clause: int,
    asked: dict[str, str],
    events: EventArrays,
    event: Mapping[str, Any],
    combination: Combination = BY_SUM,
) -> ClauseExplanation:
    """Every constraint of a clause against the event; the life span of its slot is one of them."""
    table, schema = with_lives(segment).arrays, segment.schema
    constraints = []
    for c in range(int(table.constraint_start[clause]), int(table.constraint_start[clause + 1])):
        name = schema.names[table.attr[c]]
        position = find_attribute(events, 0, int(table.attr[c]))
        held = bool(constraint_holds(table, c, events, position))
        if name == LIFE:
            key = None if position == ABSENT else int(events.lo[position])
            asked_of_life = life_text(life_of(segment, slot), key, schema.zone)
            given = (schema.time or "time", asked_of_life, event.get(LIFE), held, 0.0, 1.0, 0.0)
            constraints.append(ConstraintExplanation(*given))
            continue
        weight = float(table.weight[c]) if len(table.weight) else 1.0
        event_weight = float(events.weight[position]) if position != ABSENT and len(events.weight) else 1.0
        part = weight * event_weight if held and position != ABSENT else 0.0
        got = value_at(event, name)
        if schema.by_name[name].type is not None:
            got = as_interval(got)
        constraints.append(ConstraintExplanation(name, asked[name], got, held, weight, event_weight, part))
    held = all(c.held for c in constraints)
    score = _score(segment, slot, clause, events, combination) if held else None
    return ClauseExplanation(tuple(constraints), held, score)


def _score(segment: Segment, slot: int, clause: int, events: EventArrays, combination: Combination) -> float:
    """The score that a clause which holds gives its slot."""
    table, static = segment.arrays, static_score(segment.arrays, slot)
    if combination.is_sum:
        return float(clause_score(table, clause, events, 0, False, static)[1])
    value = scoring_of(combination).clause_value(table, clause, events, 0, False, combination.code)[1]
    return float(static + value)


# --- what was asked ------------------------------------------------------------------------------------------


def nearest(segment: Segment, events: EventArrays, eligible: U64, missing: int) -> tuple[I32, I32, I32]:
    """Eligible slots that would match the one event if at most `missing` constraints of one clause held. O(slots).

    With how many constraints fail, and of which clause.
    """
    found = np.empty((max(bits.count(eligible), 1), 3), np.int32)
    count, _ = find_near_misses(with_lives(segment).arrays, events, 0, eligible, missing, 0, found)
    slots, failures, clauses = found[:count].T
    return slots, failures, clauses


def near_miss(segment: Segment, slot: int, clause: int, events: EventArrays, event: Mapping[str, Any]) -> NearMiss:
    """What kept a slot from matching, in its nearest clause."""
    clause -= int(segment.arrays.clause_start[slot])
    own = segment.pick(np.array([slot]))
    return NearMiss(own.ids[0], explain_clause(own, 0, clause, clause_texts(own, 0)[clause], events, event).failing())


def never_matching(segment: Segment) -> list[Id]:
    """The subscriptions without a clause all of whose constraints some value can meet. O(size)."""
    table = segment.arrays
    empty = (np.diff(table.interval_start) == 0) & (table.accepts_null == 0)
    broken = np.zeros(len(table.constraint_start) - 1, bool)
    broken[np.searchsorted(table.constraint_start, np.flatnonzero(empty), "right") - 1] = True
    good = np.zeros(len(segment), bool)
    good[np.searchsorted(table.clause_start, np.flatnonzero(~broken), "right") - 1] = True
    return segment.ids.named(np.flatnonzero(~good).tolist())


def clause_texts(segment: Segment, slot: int) -> list[dict[str, str]]:
    """For each clause of a slot, the text asked of each attribute."""
    if text := segment.text(slot):
        parsed = parse_clauses(text)
        asked = [{name: " AND ".join(map(atom_sql, atoms)) for name, atoms in clause} for clause in parsed]
        if [set(clause) for clause in asked] == [_names(segment, c) - {LIFE} for c in _clauses_of(segment, slot)]:
            return asked  # else it is of a file that someone wrote by hand
    return [interval_texts(segment, c) for c in _clauses_of(segment, slot)]


def _names(segment: Segment, clause: int) -> set[str]:
    """The attributes that a clause constrains."""
    first, last = segment.arrays.constraint_start[clause : clause + 2]
    return {segment.schema.names[number] for number in segment.arrays.attr[first:last].tolist()}


def condition_text(segment: Segment, slot: int) -> str:
    """The condition of a slot as SQL; for ready-made columns, written out from the intervals."""
    if text := segment.text(slot):
        return text
    clauses = [" AND ".join(interval_texts(segment, c).values()) or "TRUE" for c in _clauses_of(segment, slot)]
    return " OR ".join(clauses) or "FALSE"


def _clauses_of(segment: Segment, slot: int) -> range:
    return range(int(segment.arrays.clause_start[slot]), int(segment.arrays.clause_start[slot + 1]))


def interval_texts(segment: Segment, clause: int) -> dict[str, str]:
    """The constraints of a ready-made clause as text, from its intervals."""
    table, schema = segment.arrays, segment.schema
    texts = {}
    for c in range(int(table.constraint_start[clause]), int(table.constraint_start[clause + 1])):
        attribute = schema.by_name[schema.names[table.attr[c]]]
        if attribute.name == LIFE:
            continue
        ends = range(int(table.interval_start[c]), int(table.interval_start[c + 1]))
        parts = [_interval_text(schema, attribute, int(table.lo[i]), int(table.hi[i])) for i in ends]
        name = name_sql(attribute.name)
        joined = f"({' OR '.join(parts)})" if len(parts) > 1 else "".join(parts)
        texts[attribute.name] = joined or f"({name} IS NULL AND {name} IS NOT NULL)"
    return texts


def _interval_text(schema: Schema, attribute: Attribute, lo: int, hi: int) -> str:
    type_, name = attribute.type, name_sql(attribute.name)
    if type_ is None:  # nothing living compares it with a value
        return f"{name} IS NOT NULL"
    low = None if lo <= type_.low else literal_sql(_bound(schema, attribute, lo))
    high = None if hi >= type_.high else literal_sql(_bound(schema, attribute, hi))
    if low is None:
        return f"{name} IS NOT NULL" if high is None else f"{name} <= {high}"
    if high is None:
        return f"{name} >= {low}"
    return f"{name} = {low}" if lo == hi else f"{name} BETWEEN {low} AND {high}"


def _bound(schema: Schema, attribute: Attribute, key: int) -> Any:
    type_ = attribute.known_type
    if not type_.keyed:
        return value_of_key(type_, key)
    constant = schema.strings[attribute.number].constant_near(key)
    return constant.decode() if type_.kind == Kind.STRING else literal_at(position_at(constant))
