"""The answers of several segments come in the order of a stable sort."""

import numpy as np
import pytest

from earmark.engine.collect import in_order


@pytest.mark.parametrize("k", [None, 1, 3, 1_000])
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("each", [1, 4, 128])
def test_order_of_answers(k: int | None, each: int, is_sorted: bool) -> None:
    random = np.random.default_rng(each)
    count, answers = 50, 50 * each
    events = np.sort(random.integers(0, count, answers))
    events = np.concatenate([events, events[::2]])  # two segments, each event by event
    scores = random.choice([0.0, -0.0, 1.5, -2.0], len(events))
    sequence = random.permutation(len(events))
    if is_sorted:  # as segments give them
        half = (len(events) * 2) // 3
        for part in (slice(0, half), slice(half, None)):
            columns = (sequence[part], events[part]) if k is None else (sequence[part], -scores[part], events[part])
            scores[part], sequence[part] = (one[part][np.lexsort(columns)] for one in (scores, sequence))
    order = np.lexsort((sequence, events) if k is None else (sequence, -scores, events))
    kept = [at for e in range(count) for at in order[events[order] == e][:k].tolist()]
    starts, places = in_order(events, scores, sequence, count, k)
    assert places.tolist() == kept
    assert np.array_equal(np.diff(starts), np.bincount(events[kept], minlength=count))


def test_no_answers() -> None:
    nothing = np.empty(0, np.int64)
    for k in (None, 2):
        starts, places = in_order(nothing, np.empty(0), nothing, 3, k)
        assert starts.tolist() == [0, 0, 0, 0] and not len(places)
