"""In which order do the answers of several segments come?

Each segment gives its answers event by event, and those of an event in order: by sequence, or, where the k best are
wanted, by score and then sequence. Such a *run* is merged into what earlier segments gave to the same event, from the
back, so that a run which comes after all of it is only copied.

    events     0 0 2 | 0 1 2       of segment 0 | of segment 1
    sequence   3 7 1 | 5 2 0
    order      0 3 1 | 4 | 5 2     places of the answers, event by event

Invariant: the order is that of a stable sort by (event, sequence), or by (event, falling score, sequence).
Complexity: O(answers) where segments follow one another in sequence; otherwise O(answers x segments).
"""

from __future__ import annotations

import numpy as np

from earmark.flat.arrays import F64, I64, pointers_of, read_only
from earmark.flat.machine import at
from earmark.jit import inlined, kernel


def in_order(events: I64, scores: F64, sequence: I64, count: int, k: int | None) -> tuple[I64, I64]:
    """The order of the answers to `count` events: (where each event's begin, places of the answers).

    All of them, or the k best of each event.
    """
    counts = np.bincount(events, minlength=count)
    starts = pointers_of(counts)
    order = np.empty(len(events), np.int64)
    columns = (read_only(events), read_only(scores), read_only(sequence))
    merge_runs(*columns, starts, starts[:-1].copy(), k is not None, order)
    if k is None or not len(events) or counts.max() <= k:
        return starts, order
    rank = np.arange(len(order)) - np.repeat(starts[:-1], counts)
    return pointers_of(np.minimum(counts, k)), order[rank < k]


@kernel
def merge_runs(events: I64, scores: F64, sequence: I64, starts: I64, ends: I64, is_ranked: bool, order: I64) -> None:
    """Fill `order` with the places of the answers in order; `ends` is where each event's begin, and is written to."""
    first = 0
    while first < len(events):
        e, end = events[first], first + 1
        while end < len(events) and events[end] == e and not _is_before(scores, sequence, end, end - 1, is_ranked):
            end += 1
        earlier, run, to = ends[e] - 1, end - 1, ends[e] + end - first - 1
        ends[e] = to + 1
        while run >= first:
            if earlier >= starts[e] and _is_before(scores, sequence, run, order[earlier], is_ranked):
                order[to] = order[earlier]
                earlier -= 1
            else:
                order[to] = run
                run -= 1
            to -= 1
        first = end


@inlined
def _is_before(scores: F64, sequence: I64, i: int, j: int, is_ranked: bool) -> bool:
    """Whether answer i comes before answer j, of the same event."""
    if is_ranked and at(scores, i) != at(scores, j):
        return bool(at(scores, i) > at(scores, j))
    return bool(at(sequence, i) < at(sequence, j))
