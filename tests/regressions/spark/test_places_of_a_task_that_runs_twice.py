"""A task that numbered subscriptions deleted its file before writing it again: run twice at once, there was no file.

With speculation, Spark starts a slow task a second time, and does not wait until the other has ended.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.feather import write_feather

from earmark.book.segments import read_packed
from earmark.spark import ordering
from earmark.spark.ordering import PART, PLACES, SEQUENCE, SLOT, write_places


def test_the_file_is_always_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = tmp_path / "part-1"
    part.mkdir()
    write_feather(pa.table({SLOT: pa.array([0, 1, 2], pa.int32())}), part / "rows.arrow", compression="uncompressed")
    numbers = pa.array([0, 0], pa.int32())
    rows = pa.record_batch({PART: numbers, SLOT: pa.array([2, 0], pa.int32()), SEQUENCE: pa.array([5, 7])})
    list(write_places([str(part)], iter([rows])))

    def killed(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(ordering, "write_packed", killed)
    with pytest.raises(OSError):
        list(write_places([str(part)], iter([rows])))
    assert read_packed(part / PLACES, PLACES).array(SEQUENCE, np.int64).tolist() == [7, -1, 5]
