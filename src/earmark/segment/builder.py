"""How subscriptions become a segment: rows in, segment out. The only way in, for a matcher, the CLI and Spark alike.

    builder = Builder(schema)
    builder.take(row)                             checks, parses and binds; an error leaves no trace of the row
    segment = builder.prepared().segment(0)       cannot fail on what the user gave

Whole columns (columns.py) and Arrow tables of our own (arrow.py) are prepared without a loop over rows; what they give
is a `Prepared` as well.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from itertools import accumulate, chain, islice
from operator import itemgetter
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError, refuse, shortened, shown
from earmark.events.mappings import checked_weights
from earmark.events.moments import Moment
from earmark.flat.arrays import I64, frozen
from earmark.keys.bind import Binder, BoundClauses, leaves, number_shape
from earmark.keys.runs import Planner, Run
from earmark.keys.schema import Draft, Schema
from earmark.language.normal import Clauses
from earmark.language.parameters import Params, bound
from earmark.language.parse import compared, known_template, parse_clauses, split_units
from earmark.language.predicate import Condition, Leaf, Predicate, check_text, literal_sql, to_sql
from earmark.lazy import lazy_property
from earmark.segment.arrays import EMPTY, SegmentArrays, gather
from earmark.segment.bound import arrays_of, resolved_sets, run_arrays
from earmark.segment.ids import Base, Id, IdColumn, Ids, are_distinct, checked_id
from earmark.segment.join import concat_all
from earmark.segment.life import ALWAYS, Life, checked_life, life_attribute, lives_of, moments_in
from earmark.segment.segment import NO_TAGS, Row, Segment, Tags, uses_of


@dataclass(frozen=True, slots=True)
class Subscription:
    """An id, a condition (SQL text or objects), and optionally weights, a static score, tags, params and a life span.

    `params` are the values of the parameters in the condition's text, `?` or `:name`. It matches events from `starts`
    on and before `ends` (life.py).
    """

    id: Id
    condition: str | Condition
    weights: Mapping[str, float] | None = None
    score: float = 0.0
    tags: Mapping[str, str] | None = None
    params: Params | None = None
    starts: Moment | None = None
    ends: Moment | None = None


_PART = 1 << 14
"""Rows of a batch that are split into shapes and literals before the literals are read."""
_FEW = 16
"""Fewer conditions of a shape than this are bound one by one."""
_MOST_SHAPES = 4096
_LONGEST = 4096
"""Characters of a condition that is taken in a run; its lists are bounded with it."""
USE_UPDATE = "use update() to change it"
"""What to do about an id that is in use; the command line says it with an option of its own."""
_FIELDS = tuple(field.name for field in fields(Subscription))


def as_subscription(item: Any) -> Subscription:
    """A Subscription from one, from an (id, condition) pair, or from a mapping of its fields; its params written in."""
    if isinstance(item, Subscription):
        if item.params is None:
            return item
        return replace(item, condition=with_params(item.condition, item.params), params=None)
    if isinstance(item, Mapping):
        unknown = [k for k in item if k not in _FIELDS]
        if unknown or "id" not in item or "condition" not in item:
            raise SubscriptionError(
                "a subscription has id, condition and optionally weights, score, tags, params, starts and ends,"
                f" got {', '.join(sorted(map(str, item))) or 'nothing'}"
            )
        score = item.get("score")
        condition = with_params(item["condition"], item.get("params"))
        return Subscription(
            item["id"],
            condition,
            item.get("weights"),
            0.0 if score is None else score,
            item.get("tags"),
            starts=item.get("starts"),
            ends=item.get("ends"),
        )
    if isinstance(item, tuple | list) and len(item) == 2:
        return Subscription(item[0], item[1])
    raise SubscriptionError(f"expected an (id, condition) pair or a mapping as a subscription, got {shown(item)}")


def with_params(condition: Any, params: Params | None) -> Any:
    """The condition with the values of its parameters written in."""
    if params is None:
        return condition
    if not isinstance(condition, str):
        raise SubscriptionError(f"params go with a condition as a string, got {type(condition).__name__}")
    return bound(condition, params)


def clauses_and_text(condition: Any) -> tuple[Clauses, str]:
    """The clauses of a condition, and the text that keeps it."""
    if isinstance(condition, Condition):
        condition = to_sql(condition)  # one way for all, so that what is kept can always be read again
    clauses = parse_clauses(condition)
    check_lists(clauses)
    return clauses, condition


def check_lists(clauses: Clauses) -> None:
    """Raise where the values of one predicate are of types that no attribute has at once. O(values)."""
    for clause in clauses:
        for _, atoms in clause:
            for atom in atoms:
                if type(atom) is not Leaf:
                    for leaf in leaves(atom):
                        _check_list(leaf.predicate)
                elif len(atom.predicate.values) > 1:
                    _check_list(atom.predicate)


_FAMILIES = {int: "number", float: "number", Decimal: "number", bool: "boolean"}


def _check_list(predicate: Predicate) -> None:
    """Numbers, booleans and strings do not mix; dates and timestamps do with strings, which are cast for them."""
    if len(set(map(type, predicate.values))) < 2:
        return
    values = [value for value in predicate.values if value is not None]
    for value in values:
        if _FAMILIES.get(type(value)) != _FAMILIES.get(type(values[0])):
            raise AttributeTypeError(
                f"expected values of one type,"
                f" got {shortened(literal_sql(values[0]), 60)} and {shortened(literal_sql(value), 60)}",
                attribute=predicate.attribute,
                text=to_sql(predicate),
            )


class Known(Protocol):
    """Who knows which ids are in use."""

    @property
    def id_type(self) -> type | None:
        """What ids are there; None while there are none."""

    def has_any(self, ids: set[Id]) -> bool:
        """Whether one of these is in use."""

    def find(self, one: object) -> object | None:
        """Where an id is in use; None where it is not."""


def id_problems(
    ids: list[Id] | IdColumn, rows: Sequence[int | None], known: Known | None = None
) -> list[SubscriptionError]:
    """What is wrong with ids, given in these rows: each must be new, of the kind of the others, and given once."""
    if not isinstance(ids, list):
        if (known is None or known.id_type is None) and are_distinct(ids):
            return []
        ids = Base(ids).to_list()
    distinct = set(ids)
    kind = known.id_type if known is not None else None
    kinds = set(map(type, ids)) | ({kind} if kind is not None else set())
    if len(distinct) == len(ids) and len(kinds) <= 1 and not (known is not None and known.has_any(distinct)):
        return []
    problems: list[SubscriptionError] = []
    seen: set[Id] = set()
    kind = kind or type(ids[0])
    words: dict[Any, str] = {str: "a string", int: "an integer"}
    for row, one in zip(rows, ids, strict=True):
        if type(one) is not kind:
            reason = f"expected {words[kind]} as id, as the other ids are"
        elif known is not None and known.find(one) is not None:
            reason = f"the id is already in use; {USE_UPDATE}"
        elif one in seen:
            reason = "the id is given twice"
        else:
            seen.add(one)
            continue
        problems.append(SubscriptionError(reason, row=row, id=one))
    return problems


def checked_score(score: Any) -> float:
    """A static score: finite."""
    if type(score) is float and math.isfinite(score):
        return score
    if isinstance(score, bool) or (not isinstance(score, int | float) and not hasattr(score, "__float__")):
        raise SubscriptionError(f"score must be a number, got {shown(score)}")
    try:
        value = float(score)
    except (OverflowError, TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise SubscriptionError(f"score must be finite, got {shown(score)}")
    return value


def checked_tags(tags: Mapping[str, str] | None, what: str = "tags") -> Tags:
    """Tags, sorted: strings to strings."""
    if tags is None:
        return NO_TAGS
    if not isinstance(tags, Mapping):
        raise SubscriptionError(f"{what} must map strings to strings, got {shown(tags)}")
    for pair in tags.items():
        for part in pair:
            if not isinstance(part, str):
                raise SubscriptionError(f"{what} must map strings to strings, got {shown(part)}")
            check_text(part, f"{what}: {part[:50]!r}")
    return tuple(sorted(tags.items()))


def used_weights(weights: Mapping[str, float] | None, clauses: Clauses) -> dict[str, float]:
    """Weights by attribute; each must be one that the condition uses."""
    return weights_on(weights, {name for clause in clauses for name, _ in clause}) if weights else {}


def weights_on(weights: Mapping[str, float] | None, used: set[str]) -> dict[str, float]:
    """Weights by attribute; each must be one of these."""
    checked = checked_weights(weights, SubscriptionError)
    for name in checked:
        if name not in used:
            raise SubscriptionError(
                f"weights refer to {name!r}, which the condition does not use ({_listed(used)})", attribute=name
            )
    return checked


def _listed(names: Iterable[str]) -> str:
    return "it uses " + ", ".join(sorted(names)) if names else "it uses no attribute"


def still_used(weights: Mapping[str, float] | None, condition: str | Condition) -> Mapping[str, float] | None:
    """Weights kept over a change of condition: those of attributes that it still uses."""
    try:
        used = {name for clause in clauses_and_text(condition)[0] for name, _ in clause}
    except SubscriptionError:
        return None  # taking the condition in says what is wrong with it
    return {name: weight for name, weight in (weights or {}).items() if name in used}


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """Rows that have passed every check, and what they teach the schema."""

    draft: Draft
    ids: list[Id] | IdColumn
    arrays: Callable[[Schema], SegmentArrays]
    """Their arrays, under a schema that has keys for their constants. Without sequence numbers, unless they brought
    their own."""
    asked: Sequence[str] = ()
    tags: Sequence[Tags] | None = None

    def segment(self, sequence: int | I64) -> Segment:
        """The rows as a segment, with these places in the order of insertion, or from this one on."""
        schema = self.draft.commit().with_constants(self.draft.constants)
        arrays = self.arrays(schema)
        if not isinstance(sequence, int):
            arrays = arrays._replace(sequence=sequence)
        elif not len(arrays.sequence):
            arrays = arrays._replace(sequence=np.arange(sequence, sequence + len(self.ids)))
        arrays = SegmentArrays._make(map(frozen, arrays))
        return Segment.of(schema, arrays, Ids.of(self.ids), self.asked, self.tags)


class Builder:
    """Takes subscriptions one by one."""

    def __init__(self, schema: Schema) -> None:
        self.draft = Draft(schema)
        self._binder = Binder(self.draft)
        self._ids: list[Id] = []
        self._asked: list[str] = []
        self._bound: dict[int, BoundClauses] = {}  # by row; the others are in runs
        self._weights: dict[int, dict[int, float]] = {}
        self._lives: dict[int, Life] = {}
        self._scores: dict[int, float] = {}
        self._tags: dict[int, Tags] = {}
        self._runs: dict[tuple[str, ...], Run | None] = {}
        self.first: dict[str, int] = {}
        """The row that was the first to use an attribute that the schema does not have."""
        self.typed: dict[str, int] = {}
        """The row that gave an attribute its type."""

    def __len__(self) -> int:
        """How many were taken."""
        return len(self._ids)

    @lazy_property
    def _planner(self) -> Planner:
        return Planner(self._binder)

    def take(self, item: Any) -> None:
        """Check, parse and bind one subscription; an error leaves no trace of it."""
        given = as_subscription(item)
        one = checked_id(given.id)
        clauses, text = clauses_and_text(given.condition)
        own = used_weights(given.weights, clauses)
        score, tags, life = checked_score(given.score), checked_tags(given.tags), self._life(given)
        mark = len(self.draft.log)
        bound = self._binder.bind(clauses, one)
        if own:
            self._weights[len(self._ids)] = {self.draft.get(name).number: w for name, w in own.items()}
        if life != ALWAYS:
            life_attribute(self.draft)
            self._lives[len(self._ids)] = life
        self._bound[len(self._ids)] = bound
        for name, before in self.draft.log[mark:]:
            if before is None and name not in self.draft.schema.by_name:
                self.first[name] = len(self._ids)
            if self.draft.new[name].type is not None:
                self.typed.setdefault(name, len(self._ids))
        self._append(one, text, score, tags)

    def _life(self, given: Subscription) -> Life:
        if given.starts is None and given.ends is None:
            return ALWAYS
        return checked_life(given.starts, given.ends, self.draft.schema.zone)

    def _append(self, one: Id, text: str, score: float, tags: Tags) -> None:
        if score:
            self._scores[len(self._ids)] = score
        if tags:
            self._tags[len(self._ids)] = tags
        self._ids.append(one)
        self._asked.append(text)

    def take_many(self, items: list[Any], first: int) -> list[tuple[int, EarmarkError]]:
        """Take subscriptions, which are in these rows of a batch; returns what is wrong, by row.

        Conditions of a shape that came before are taken together, in runs. After an error the batch cannot be taken;
        the rest of it is looked at one by one.
        """
        if len(items) < _FEW or first != len(self._ids):
            return self._take_each(enumerate(items, first))
        wrong: list[tuple[int, EarmarkError]] = []
        for row, item in enumerate(items, first):
            try:
                if wrong or not self._wait(row, item):
                    self.take(item)
            except EarmarkError as problem:
                wrong.append((row, problem))
        for run in filter(None, self._runs.values()):
            for row in run.take_waiting(_FEW) if run.waiting else ():
                try:
                    clauses, _ = clauses_and_text(self._asked[row])
                    self._bound[row] = self._binder.bind(clauses, self._ids[row])
                except EarmarkError as problem:
                    wrong.append((row, problem))
        return wrong

    def _take_each(self, rows: Iterable[tuple[int, Any]]) -> list[tuple[int, EarmarkError]]:
        wrong = []
        for row, item in rows:
            try:
                self.take(item)
            except EarmarkError as problem:
                wrong.append((row, problem))
        return wrong

    def _wait(self, row: int, item: Any) -> bool:
        """Let a subscription wait for others of its shape; where that is a new one, take it. False: do neither."""
        plain = _plain_row(item)
        if plain is None:
            return False
        one, text, score, tags, weights = plain
        between, literals = split_units(text)
        if between not in self._runs:
            self.take(item)
            template = known_template(between)
            if template is not None and len(self._runs) < _MOST_SHAPES:
                self._runs[between] = self._planner.run_for(template)
            return True
        run = self._runs[between]
        if run is None or not run.names.issuperset(weights):
            return False
        if weights:
            self._weights[row] = {self.draft.get(name).number: weight for name, weight in weights.items()}
        run.waiting.append((row, literals))
        self._append(one, text, score, tags)
        return True

    def row(self, sequence: int) -> Row:
        """The only one that was taken, with this place in the order of insertion."""
        clauses, given, score = self._bound[0], self._weights.get(0), self._scores.get(0, 0.0)
        self._binder.note_wide([clauses])
        schema = self.draft.commit().with_constants(self.draft.constants)
        constraints = list(chain.from_iterable(clauses)) if len(clauses) != 1 else clauses[0]
        starts, lo, hi, null = [0], [], [], []
        for one in resolved_sets(constraints, schema):
            for low, high in one.intervals:
                lo.append(low)
                hi.append(high)
            starts.append(len(lo))
            null.append(one.null)
        numbers = [number for number, _ in constraints]
        columns: list[Any] = [
            *([0, len(clauses)], [0, *accumulate(map(len, clauses))], numbers, null, starts, lo, hi),
            [given.get(number, 1.0) for number in numbers] if given else [],
            *([score] if score else [], [sequence]),
            *([[key] for key in self._lives[0]] if self._lives else ([], [])),
        ]
        arrays = SegmentArrays._make(columns)
        return Row(schema, arrays, self._ids[0], self._asked[0], self._tags.get(0, NO_TAGS), uses_of(arrays, schema))

    def prepared(self) -> Prepared:
        """What was taken."""
        runs = [run for run in self._runs.values() if run is not None and len(run.rows)] if self._runs else []
        wide = self._binder.note_wide(self._bound.values())
        for run in runs if wide else ():
            for number, constants in run.constants_of(wide, self.draft.schema).items():
                self.draft.constants[number] |= constants
        tags = [self._tags.get(row, NO_TAGS) for row in range(len(self))] if self._tags else None
        return Prepared(self.draft, self._ids, lambda schema: self._arrays(runs, schema), self._asked, tags)

    def _arrays(self, runs: list[Run], schema: Schema) -> SegmentArrays:
        """The arrays of all rows, in their order."""
        scores = [self._scores.get(row, 0.0) for row in range(len(self))] if self._scores else []
        rows = sorted(self._bound) if self._runs else list(self._bound)
        weights = [self._weights.get(row) for row in rows] if self._weights else []
        made = arrays_of([self._bound[row] for row in rows], weights, scores, schema)
        first, last = lives_of(self._lives, len(self))
        if not runs:
            return made._replace(first_moment=first, last_moment=last)
        parts = [made._replace(score=EMPTY), *(run_arrays(run, schema, self._weights) for run in runs)]
        order = np.empty(len(self), np.int64)
        order[np.concatenate([np.array(rows, np.int64), *(run.rows for run in runs)])] = np.arange(len(self))
        made = concat_all([part._replace(sequence=np.empty(len(part.clause_start) - 1, np.int64)) for part in parts])
        return gather(made, order)._replace(
            score=np.array(scores, np.float64) if scores else EMPTY,
            sequence=np.empty(0, np.int64),
            first_moment=first,
            last_moment=last,
        )


def _plain_row(item: Any) -> tuple[Id, str, float, Tags, dict[str, float]] | None:
    """Id, text, score, tags and weights of a subscription for a run; None where it is rare or wrong."""
    try:
        if type(item) is tuple and len(item) == 2:
            one, text = item
            score, tags, weights = 0.0, NO_TAGS, {}
        else:
            given = as_subscription(item)
            if given.starts is not None or given.ends is not None:
                return None
            one, text, score, tags = given.id, given.condition, checked_score(given.score), checked_tags(given.tags)
            weights = checked_weights(given.weights, SubscriptionError)
        if type(text) is not str or len(text) > _LONGEST:
            return None
        if type(one) is not int or not -(2**63) <= one < 2**63:
            one = checked_id(one)
        return one, text, score, tags, weights
    except EarmarkError:
        return None


def prepare(schema: Schema, items: Iterable[Any], numbered: bool = True) -> Prepared:
    """Take subscriptions one by one; an error names all that cannot be taken, with their rows if they are numbered."""
    builder = Builder(schema)
    if isinstance(items, list) and len(items) < _FEW:
        wrong = _wrong_rows(builder, items, 0, numbered)
    else:
        wrong, first, left = [], 0, iter(items)
        with collector_held():
            while part := list(islice(left, _PART)):
                wrong += _wrong_rows(builder, part, first, numbered)
                first += len(part)
    if wrong:
        refuse([problem for _, problem in sorted(wrong, key=itemgetter(0))])
    return builder.prepared()


def _wrong_rows(builder: Builder, items: list[Any], first: int, numbered: bool) -> list[tuple[int, EarmarkError]]:
    wrong = builder.take_many(items, first)
    return [(row, named(problem, row if numbered else None, items[row - first])) for row, problem in wrong]


def row_of(schema: Schema, given: Subscription, sequence: int) -> Row:
    """One subscription, with this place in the order of insertion."""
    try:
        row = _compared_row(schema, given, sequence)
        if row is None:
            builder = Builder(schema)
            builder.take(given)
            row = builder.row(sequence)
        return row
    except EarmarkError as problem:
        raise named(problem, None, given) from None


def _compared_row(schema: Schema, given: Subscription, sequence: int) -> Row | None:
    """The same for a condition of known shape that compares whole numbers and teaches nothing new; None for others."""
    text = given.condition
    if type(text) is not str or given.weights or given.params is not None or schema.strict:
        return None
    if given.starts is not None or given.ends is not None or (found := compared(text)) is None:
        return None
    template, literals = found
    shape = number_shape(schema, template)
    intervals = None if shape is None else shape.intervals(literals)
    if shape is None or intervals is None:
        return None
    one, score, tags = checked_id(given.id), checked_score(given.score), checked_tags(given.tags)
    columns: list[Any] = [
        *([0, len(shape.clause_ends) - 1], shape.clause_ends, shape.attr, shape.accepts_null, shape.interval_start),
        *(*intervals, [], [score] if score else [], [sequence], [], []),
    ]
    return Row(schema, SegmentArrays._make(columns), one, text, tags, shape.uses)


class _Hold:
    """One use of `collector_held`."""


_holds: WeakSet[_Hold] = WeakSet()  # of all threads; one whose end was interrupted goes with its frame
_collector_is_off = False  # by us; an interruption may leave it off, and the next use turns it on again


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold back the cyclic garbage collector: a batch makes many objects that stay, and no cycles among them.

    It would look through all of them again and again, a fifth of the time that a large batch takes. Uses may nest; the
    last one to end turns the collector on again, unless the caller had turned it off.
    """
    global _collector_is_off
    if not gc.isenabled() and not _collector_is_off:  # the caller has turned it off
        yield
        return
    hold = _Hold()
    try:
        _holds.add(hold)
        _collector_is_off = True
        gc.disable()
        yield
    finally:
        _holds.discard(hold)
        if not _holds:
            gc.enable()
            _collector_is_off = False


def named(problem: EarmarkError, row: int | None, item: Any) -> EarmarkError:
    """The same problem with its row and its id."""
    one = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    if one is None and isinstance(item, tuple | list) and item:
        one = item[0]
    return problem.at(row=row, id=problem.id if one is None else one)


def rows_of_frame(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table with a `condition` column, as mappings."""
    names = [n for n in _FIELDS if n != "params" and n in table.column_names]
    lives = [n for n in names if n in ("starts", "ends")]
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        rows = batch.drop_columns(lives).to_pylist()
        for name in lives:
            for row, moment in zip(rows, moments_in(batch.column(name)), strict=True):
                row[name] = moment
        for row in rows:
            for name in ("weights", "tags"):
                if row.get(name) is not None:
                    row[name] = as_mapping(row[name])
            yield row


def as_mapping(value: Any) -> Any:
    """An Arrow map (pairs), a list of {key, value}, or a struct (absent fields are None) as a dict.

    Anything else is left for the checks.
    """
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if v is not None}
    if not isinstance(value, list):
        return value
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if all(isinstance(pair, dict) and set(pair) == {"key", "value"} for pair in value):
        return {pair["key"]: pair["value"] for pair in value}
    return value
