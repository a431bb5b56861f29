"""`copy.deepcopy` of a durable book, or a pickle that another process loads, was a matcher in memory: its changes were
lost without a word."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import earmark
from earmark import EarmarkError, Matcher


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("readonly", [False, True])
def test_it_is_refused(tmp_path: Path, copied: Callable[[Any], object], readonly: bool) -> None:
    with earmark.open(tmp_path / "b", index="scan") as m:
        m.add("a", "age > 3")
    with earmark.open(tmp_path / "b", readonly=readonly) as m:
        with pytest.raises(EarmarkError, match=r"cannot be copied or pickled: backup\(folder\) copies it"):
            copied(m)
        in_memory = Matcher()
        in_memory.add_many(m.to_arrow())
        assert in_memory.match({"age": 4}) == ["a"]
        assert copy.deepcopy(m.as_of(1)).ids() == ["a"]
