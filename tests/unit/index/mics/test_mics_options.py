"""Options of a MICS index that make no sense, of whatever type, get a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from earmark import Matcher
from earmark.errors import EarmarkError


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"bits": "x"}, "expected bits from 1 to 16"),
        ({"bits": 2.0}, "expected bits from"),
        ({"bits": True}, "expected bits from"),
        ({"bits": [4]}, "expected bits from"),
        ({"bits": 0}, "expected bits from"),
        ({"bits": 17}, "expected bits from"),
        ({"bits": 15, "attributes": (0, 1, 2, 3)}, "expected bits from 1 to 14 for 4 attributes"),
        ({"attributes": [0.5]}, "different attribute numbers"),
        ({"attributes": 3}, "different attribute numbers"),
        ({"attributes": "ab"}, "different attribute numbers"),
        ({"attributes": ()}, "different attribute numbers"),
        ({"attributes": (1, 1)}, "different attribute numbers"),
        ({"attributes": (True, 0)}, "different attribute numbers"),
        ({"attributes": ([1],)}, "different attribute numbers"),
        ({"attributes": (-1,)}, "different attribute numbers"),
        ({"most": None}, "expected a number of attributes"),
        ({"most": "2"}, "expected a number of attributes"),
        ({"most": 13}, "expected a number of attributes"),
        ({"pieces": None}, "expected a number of blocks"),
        ({"pieces": 1.5}, "expected a number of blocks"),
        ({"pieces": 0}, "expected a number of blocks"),
        ({"cells": None}, "expected equal or variable for cells"),
        ({"cells": ["equal"]}, "expected equal or variable for cells"),
        ({"cells": "even"}, "expected equal or variable for cells"),
    ],
)
def test_a_sentence(options: dict[str, Any], part: str) -> None:
    with pytest.raises(EarmarkError, match=part):
        Matcher("mics", index_options=options)


@pytest.mark.parametrize(
    "options", [{"bits": np.int64(4)}, {"attributes": [np.int32(0)]}, {"attributes": {0}}, {"most": 1, "pieces": 2}]
)
def test_what_is_a_number_counts(options: dict[str, Any]) -> None:
    m = Matcher("mics", index_options=options)
    m.add_many([(i, f"x BETWEEN {i} AND {i + 3}") for i in range(300)])
    assert m.match({"x": 7}) == [4, 5, 6, 7]
