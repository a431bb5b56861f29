"""A k-th score equal to the threshold does not end the search: an unseen slot of that score may be earlier."""

from __future__ import annotations

import pytest
from tests.unit.index.ranked.scored_cases import STRUCTURES
from tests.unit.made import Constraint, Made, Subscription, Value, best, event_arrays, table_arrays

from earmark.flat import bits


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_the_earliest_of_equals_wins(name: str) -> None:
    made = Made([], [{0: Value(5, 5), 1: Value(5, 5)}], weighted=True)
    # The last slots are the earliest, and have their score from the list that gives its heads later.
    weights = [(0.5, 0.5), (1.0, 0.0), (0.75, 0.25), (0.0, 1.0), (0.25, 0.75), (0.5, 0.5)]
    for i, (a, b) in enumerate(weights):
        clause = {0: Constraint([(0, 9)], weight=a), 1: Constraint([(0, 9)], weight=b)}
        made.subscriptions.append(Subscription([clause], sequence=-i))
    made.eligible = [True] * len(weights)
    index = STRUCTURES[name].build(table_arrays(made))
    for k in range(1, 7):
        for relaxed in (False, True):
            slots, scores = index.top_k(event_arrays(made, made.events), k, bits.all_set(6), relaxed)
            assert list(zip(slots.tolist(), scores.tolist(), strict=True)) == best(made, made.events[0], k, relaxed)


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_weights_too_small_to_count(name: str) -> None:
    """The static score swallows the weights, so that clauses in one list reach the threshold of two."""
    made = Made([], [{0: Value(5, 5), 1: Value(5, 5)}], weighted=True, scored=True)
    for i in range(8):
        clause = {0: Constraint([(0, 9)] if i % 2 else [(7, 9)], weight=1e-9), 1: Constraint([(0, 9)], weight=1e-9)}
        made.subscriptions.append(Subscription([clause], score=1e9, sequence=100 - i))
    made.eligible = [True] * 8
    index = STRUCTURES[name].build(table_arrays(made))
    for k in range(1, 9):
        slots, scores = index.top_k(event_arrays(made, made.events), k, bits.all_set(8), True)
        assert list(zip(slots.tolist(), scores.tolist(), strict=True)) == best(made, made.events[0], k, True)
