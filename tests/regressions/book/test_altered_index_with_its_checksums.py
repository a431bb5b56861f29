"""A stored index whose arrays were altered together with their checksums loads, and answers wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.unit.book.saved_books import arrays_in, change_array

from earmark import Matcher, TableError


@pytest.mark.parametrize("index", ["blocks", "k_index", "interval_tree"])
def test_verify_compares_with_a_scan(index: str, tmp_path: Path) -> None:
    m = Matcher(index)
    m.add_many([(i, f"a BETWEEN {i} AND {i + 3} AND b > {i % 7}") for i in range(3_000)])
    m.save(tmp_path / "book")
    assert Matcher.load(tmp_path / "book", verify=True).match({"a": 5, "b": 100}) == [2, 3, 4, 5]
    names = sorted(name for name in arrays_in(tmp_path / "book") if name.startswith("index."))
    assert sum(_altered(tmp_path, name) for name in names), "no way was found to alter this index unnoticed"


def _altered(folder: Path, name: str) -> bool:
    """Alter one array and its checksum; whether the folder still loads and gives wrong answers, which verify sees."""
    copy = Path(shutil.copytree(folder / "book", folder / "copy"))

    def backwards(array: np.ndarray) -> np.ndarray:
        if array.size and array.dtype.kind in "iu":
            array[...] = np.sort(array.reshape(-1))[::-1].reshape(array.shape)
        return array

    change_array(copy, name, backwards)
    events = [{"a": i, "b": 100} for i in range(0, 3_000, 10)]
    wrong = False
    try:
        loaded = Matcher.load(copy)
        wrong = not loaded.verify(events).ok
    except TableError:
        pass
    if wrong:
        with pytest.raises(TableError, match=r"the index of the book .* is damaged"):
            Matcher.load(copy, verify=True)
    shutil.rmtree(copy)
    return wrong
