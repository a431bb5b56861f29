"""The scored R-tree, and the one by left ends."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.index.ranked.scored_cases import (
    PAPER,
    scored_intervals,
)

from earmark.errors import EarmarkError
from earmark.index.ranked.trees import RTree


@pytest.mark.parametrize("options", [{"branching": 1}, {"branching": 65}])
def test_bad_options_get_a_sentence(options: dict[str, Any]) -> None:
    with pytest.raises(EarmarkError, match="expected branching from 2 to 64"):
        RTree.build(scored_intervals(PAPER), **options)


def test_space_is_that_of_the_theorem() -> None:
    for branching in (2, 4, 16):
        index = RTree.build(scored_intervals([(i, i) for i in range(1000)]), branching=branching)
        assert len(index.arrays.score) <= 1000 * (1 + 2 / (branching - 1))
