"""The worked figures and formulas of the MICS paper (mics.txt), as golden values: its matching side."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.made import Constraint, Made, Subscription, Value, event_arrays, table_arrays

from earmark.cover.ranges.projection import Projection, ranges_of_events
from earmark.curves import hilbert
from earmark.curves.hilbert import mean_ranges
from earmark.curves.space import space_of
from earmark.flat import bits
from earmark.index.mics import MicsIndex
from earmark.workload.mics import CELLS, mics

FIGURE_3 = [(32, 35), (45, 46), (50, 55)]
"""The ranges of subscription s2, the box of cells around s1."""
PUBLICATIONS = {28: (35, 55), 52: (55, 35), 50: (69, 21)}
"""p1, p2 and p3, in tenths of a cell: p3 lies in s2 but not in s1."""


def figure_3() -> tuple[Made, Projection]:
    """s1 begins and ends inside cells, of ten values each. Cell 0 is NULL, so cell 1 has the values of two."""
    cuts = np.arange(20, 80, 10)
    space = space_of(np.array([0, 1], np.int32), [cuts, cuts], 3)
    made = Made([Subscription([{0: Constraint([(43, 66)]), 1: Constraint([(24, 57)])}])], [], eligible=[True])
    made.events = [{0: Value(x, x), 1: Value(y, y)} for x, y in PUBLICATIONS.values()]
    return made, Projection.build(table_arrays(made), space=space)


def test_the_subscription_of_figure_3() -> None:
    assert figure_3()[1].ranges().pairs() == FIGURE_3


def test_the_publications_of_figure_3() -> None:
    """Algorithm 2: p1 is not sent, p2 is; p3 is sent and matches nobody, the paper's false positive."""
    made, projection = figure_3()
    table, events = table_arrays(made), event_arrays(made, made.events)
    assert ranges_of_events(projection.space, events)[1].tolist() == list(PUBLICATIONS)
    assert projection.sends(events).tolist() == [False, True, True]
    measured = projection.measured(table, events)
    assert (measured.sent, measured.wanted, measured.false_share) == (2, 1, 0.5)


def test_subscription_indexing_has_no_false_positives() -> None:
    made, _ = figure_3()
    table, events = table_arrays(made), event_arrays(made, made.events)
    pointers, slots = MicsIndex.build(table, attributes=(0, 1), bits=3, cells="equal").match_many(
        events, bits.all_set(1)
    )
    assert (pointers.tolist(), slots.tolist()) == ([0, 0, 1, 1], [0])


@pytest.mark.parametrize(("dimensions", "side"), [(2, 4), (2, 16), (3, 4), (3, 8), (4, 4)])
def test_equation_3_is_the_mean_number_of_ranges(dimensions: int, side: int) -> None:
    """Half the surface over the dimensions, for boxes anywhere on a fine grid."""
    low = np.random.default_rng(3).integers(0, 256 - side, (300, dimensions))
    start, _, _ = hilbert.ranges(low, low + side - 1, 8)
    assert mean_ranges(low, low + side - 1)[0] == side ** (dimensions - 1)
    assert start[-1] / len(low) == pytest.approx(side ** (dimensions - 1), rel=0.06)


def test_tables_2_and_3_in_small() -> None:
    """Zipf leaves more to evaluate than uniform data; and nothing that is wanted is withheld."""
    left = {}
    for distribution in ("uniform", "zipf"):
        workload = mics(distribution, 2_000, 300)
        table, events = workload.table(), workload.events()
        index = MicsIndex.build(table, attributes=(0, 1, 2), bits=9, cells="equal")
        left[distribution] = len(index.meeting(table, np.arange(100, dtype=np.int32))[1]) / 100
        cuts = [np.arange(1, CELLS, dtype=np.int64)] * 3
        projection = Projection.build(table, space=space_of(np.arange(3, dtype=np.int32), cuts, 9))
        inside = (workload.sub_lo[:, :3] <= workload.event_value[:, None, :3]) & (
            workload.event_value[:, None, :3] <= workload.sub_hi[:, :3]
        )
        assert projection.sends(events).tolist() == inside.all(axis=2).any(axis=1).tolist()
    assert left["uniform"] < 2 < left["zipf"] < 40
