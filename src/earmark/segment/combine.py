"""Scores other than the sum: the same terms, combined by another monotone function.

A *term* is a constraint's weight times the event's weight of its attribute. Terms come from the constraints that hold
and whose attribute the event has, life spans left out, in ascending order of attributes:

    score  =  static score + combine( ... combine(combine(t1, t2), t3) ... )        without terms the static score alone

    "sum"       t1 + t2 + ...           the default
    "max"       the greatest term
    "min"       the least term
    "product"   t1 x t2 x ...           at most GREATEST, so that it stays a number

and any function of two numbers that decreases in neither, such as `math.hypot`: "any monotonic function of the weights"
(ranked-pubsub, footnote 2; be-star-tree, section III-C).

`most_of` is why such a score can be pruned by. Let m1, m2, ... be bounds on the terms that a clause may have, of which
it has some. The greatest value over all ways to choose them, M, needs one pass, because combine never decreases:

    M  =  max(M, m, combine(M, m))        for m = m1, m2, ...

"sum" is not computed here: `evaluate.clause_score` adds the terms to the static score, one by one.

Complexity: that of `evaluate.clause_score`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from itertools import pairwise, product
from types import FunctionType
from typing import Any, Literal, NamedTuple

import numpy as np

from earmark.errors import EarmarkError
from earmark.events.arrays import EventArrays
from earmark.flat.arrays import F64, I32, I64
from earmark.flat.machine import at
from earmark.jit import JIT, inlined, kernel
from earmark.segment.arrays import SegmentArrays
from earmark.segment.evaluate import ABSENT, constraint_holds, find_attribute, static_score

Function = Callable[[float, float], float]
Combine = Literal["sum", "max", "min", "product"] | Function
"""What a user can ask for."""
GREATEST = float(np.finfo(np.float64).max)
SUM, MAX, MIN, PRODUCT, OTHER = range(5)
NAMES = {"sum": SUM, "max": MAX, "min": MIN, "product": PRODUCT}
TRIED = (0.0, 1e-9, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 10.0, 1e6)
"""Terms for which a function of a user's is tried out."""


class Combination(NamedTuple):
    """How terms are combined: by a name, or by a function of a user's."""

    name: str
    code: int
    function: Function | None = None

    @property
    def is_sum(self) -> bool:
        """Whether it is the default."""
        return self.code == SUM

    @property
    def given(self) -> Any:
        """What the user gave."""
        return self.function or self.name


BY_SUM = Combination("sum", SUM)


def combination(combine: Any) -> Combination:
    """The combination that a user asks for, by name or as a function; raises unless it is one."""
    if isinstance(combine, str) and combine in NAMES:
        return Combination(combine, NAMES[combine])
    if not callable(combine):
        known = ", ".join(map(repr, NAMES))
        raise EarmarkError(f"expected one of {known} or a function of two numbers for combine, got {combine!r}")
    function = getattr(combine, "py_func", combine)
    name = getattr(function, "__name__", "combine")
    _check_monotone(function, name)
    made = Combination(name, OTHER, function)
    scoring_of(made)  # which says where it cannot be compiled
    return made


def _check_monotone(function: Function, name: str) -> None:
    """Raise unless a function gives finite numbers that never decrease, for the terms in TRIED."""
    value: dict[tuple[float, float], float] = {}
    for pair in product(TRIED, TRIED):
        try:
            value[pair] = float(function(*pair))
        except Exception as problem:
            raise EarmarkError(f"combine: {name}{pair} raised {type(problem).__name__}: {problem}") from None
        if not math.isfinite(value[pair]):
            raise EarmarkError(f"combine: expected a finite number for {name}{pair}, got {value[pair]}")
    for (low, high), other in product(pairwise(TRIED), TRIED):
        for less, more in (((low, other), (high, other)), ((other, low), (other, high))):
            if value[less] > value[more]:
                raise EarmarkError(
                    "combine: expected a function that never decreases, got "
                    f"{name}{less} = {value[less]:g} and {name}{more} = {value[more]:g}"
                )


# --- kernels ---------------------------------------------------------------------------------------------------


Compiled = Callable[[Callable[[Any], Any]], Callable[[Any], Any]]
"""From how a function is compiled (`jit.py`), a decorator that does it and decides where the result is kept."""


class Scoring(NamedTuple):
    """What kernels need to score by a combination: parts of kernels, and how kernels that use them are compiled.

    most_of(most, bound, code)                              the greatest value so far, with one more bound on a term
    clause_value(table, clause, events, e, relaxed, code)   whether a clause qualifies, and its terms combined
    slot_score(table, slot, events, e, relaxed, code)       whether a slot qualifies, and its score
    score_matches(table, events, event_ptr, slots, code)    the scores of known matches
    """

    most_of: Any
    clause_value: Any
    slot_score: Any
    score_matches: Any
    compiled: Compiled


@inlined
def _by_name(value: float, term: float, code: int) -> float:
    """Combine two terms by one of the names other than "sum"."""
    if code == MAX:
        return max(value, term)
    if code == MIN:
        return min(value, term)
    return min(value * term, GREATEST)


def _scoring(combine: Any, compiled: Compiled) -> Scoring:
    """The scoring by a compiled function of (value, term, code)."""
    clause_value = _clause_value(combine, compiled)

    @compiled(inlined)
    def most_of(most: float, bound: float, code: int) -> float:
        """The greatest value over all choices of the bounds so far (`most`, negative before the first) and one more."""
        if most < 0.0:
            return bound
        return float(max(most, bound, combine(most, bound, code)))

    @compiled(inlined)
    def slot_score(
        table: SegmentArrays, slot: int, events: EventArrays, e: int, relaxed: bool, code: int
    ) -> tuple[bool, float]:
        """Whether any clause of the slot qualifies for event e, and the best score among those that do."""
        found, best = False, 0.0
        for clause in range(at(table.clause_start, slot), at(table.clause_start, slot + 1)):
            qualifies, value = clause_value(table, clause, events, e, relaxed, code)
            if qualifies and (not found or value > best):
                found, best = True, value
        return found, static_score(table, slot) + best

    @compiled(kernel)
    def score_matches(table: SegmentArrays, events: EventArrays, event_ptr: I64, slots: I32, code: int) -> F64:
        """The scores of known matches, those of each event after those of the event before."""
        scores = np.empty(len(slots), np.float64)
        for e in range(len(event_ptr) - 1):
            for i in range(event_ptr[e], event_ptr[e + 1]):
                scores[i] = slot_score(table, slots[i], events, e, False, code)[1]
        return scores

    return Scoring(most_of, clause_value, slot_score, score_matches, compiled)


def _clause_value(combine: Any, compiled: Compiled) -> Any:
    @compiled(inlined)
    def clause_value(
        table: SegmentArrays, clause: int, events: EventArrays, e: int, relaxed: bool, code: int
    ) -> tuple[bool, float]:
        """Whether the clause qualifies for event e, as `evaluate.clause_score` says, and its terms combined."""
        value, terms, held, needed = 0.0, 0, 0, 0
        for constraint in range(at(table.constraint_start, clause), at(table.constraint_start, clause + 1)):
            position = find_attribute(events, e, at(table.attr, constraint))
            if not constraint_holds(table, constraint, events, position):
                if not relaxed:
                    return False, 0.0
                needed = 1
            else:
                held = 1
                if position != ABSENT:
                    weight = at(table.weight, constraint) if len(table.weight) else 1.0
                    term = min(weight * (at(events.weight, position) if len(events.weight) else 1.0), GREATEST)
                    value = combine(value, term, code) if terms else term
                    terms += 1
        return held >= needed, value

    return clause_value


def _named(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile a function under a name of its own, since the cache on disk tells kernels apart by their names."""

    def compiled(function: Any) -> Any:
        function.__qualname__ = f"combined.{function.__qualname__}"
        return how(function)

    return compiled


def _uncached(how: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compile a function, but not into the cache on disk, which cannot tell a user's functions apart."""

    def compiled(function: Any) -> Any:
        made = how(function)
        if JIT:
            made._cache.disable()
        return made

    return compiled


NAMED = _scoring(_by_name, _named)
"""The scoring by every name but "sum": one set of kernels, which are told the code."""


def scoring_of(combination: Combination) -> Scoring:
    """What scores by a combination other than the sum; a user's function is compiled once."""
    return NAMED if combination.function is None else _of_function(combination.function)


@cache
def _of_function(function: Function) -> Scoring:
    own: Any = _uncached(inlined)(function) if isinstance(function, FunctionType) else function

    @_uncached(inlined)
    def combine(value: float, term: float, code: int) -> float:
        """Combine two terms by a user's function."""
        return float(own(value, term))

    try:
        combine(1.0, 1.0, OTHER)
    except Exception as problem:  # Numba raises whatever its own code does
        name = getattr(function, "__name__", "the function")
        raise EarmarkError(f"combine: Numba cannot compile {name} ({type(problem).__name__})") from problem
    return _scoring(combine, _uncached)
