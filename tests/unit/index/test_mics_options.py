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
        ({"bits": "x"}, "bits is from 1 to 16"),
        ({"bits": 2.0}, "bits is from"),
        ({"bits": True}, "bits is from"),
        ({"bits": [4]}, "bits is from"),
        ({"bits": 0}, "bits is from"),
        ({"bits": 17}, "bits is from"),
        ({"bits": 15, "attributes": (0, 1, 2, 3)}, "bits is from 1 to 14 for 4 attributes"),
        ({"attributes": [0.5]}, "different attribute numbers"),
        ({"attributes": 3}, "different attribute numbers"),
        ({"attributes": "ab"}, "different attribute numbers"),
        ({"attributes": ()}, "different attribute numbers"),
        ({"attributes": (1, 1)}, "different attribute numbers"),
        ({"attributes": (True, 0)}, "different attribute numbers"),
        ({"attributes": ([1],)}, "different attribute numbers"),
        ({"attributes": (-1,)}, "different attribute numbers"),
        ({"most": None}, "most is how many"),
        ({"most": "2"}, "most is how many"),
        ({"most": 13}, "most is how many"),
        ({"pieces": None}, "pieces is how many"),
        ({"pieces": 1.5}, "pieces is how many"),
        ({"pieces": 0}, "pieces is how many"),
        ({"cells": None}, "cells are equal or variable"),
        ({"cells": ["equal"]}, "cells are equal or variable"),
        ({"cells": "even"}, "cells are equal or variable"),
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
