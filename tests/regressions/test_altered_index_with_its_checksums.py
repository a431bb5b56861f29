"""A stored index whose arrays were altered together with their checksums loads, and answers wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from earmark import Matcher, TableError
from earmark.segment.files import record_checksum, write_file


@pytest.mark.parametrize("index", ["blocks", "k_index", "interval_tree"])
def test_verify_compares_with_a_scan(index: str, tmp_path: Path) -> None:
    m = Matcher(index)
    m.add_many([(i, f"a BETWEEN {i} AND {i + 3} AND b > {i % 7}") for i in range(3_000)])
    m.save(tmp_path / "book")
    assert Matcher.load(tmp_path / "book", verify=True).match({"a": 5, "b": 100}) == [2, 3, 4, 5]
    altered = sum(_altered(tmp_path, name) for name in _index_files(tmp_path))
    assert altered, "no way was found to alter this index unnoticed"


def _index_files(folder: Path) -> list[str]:
    return [file.name for file in sorted((folder / "book").glob("data-*/extra_*.npy"))]


def _altered(folder: Path, name: str) -> bool:
    """Alter one array and its checksum; whether the folder still loads and gives wrong answers, which verify sees."""
    (data,) = (folder / "book").glob("data-*")
    manifest = folder / "book" / "manifest.json"
    before, text = (data / name).read_bytes(), manifest.read_text()
    array = np.load(data / name).copy()
    if not array.size or array.dtype.kind not in "iu":
        return False
    array[...] = np.sort(array.reshape(-1))[::-1].reshape(array.shape)
    (data / name).unlink()
    record = json.loads(text)
    record["files"][name] = write_file(data / name, array)
    record.pop("blake2b")
    manifest.write_text(json.dumps({**record, "blake2b": record_checksum(record)}))
    events = [{"a": i, "b": 100} for i in range(0, 3_000, 10)]
    wrong = False
    try:
        loaded = Matcher.load(folder / "book")
        wrong = not loaded.verify(events).ok
    except TableError:
        pass
    if wrong:
        with pytest.raises(TableError, match=r"the index of the table .* is damaged"):
            Matcher.load(folder / "book", verify=True)
    (data / name).write_bytes(before)
    manifest.write_text(text)
    return wrong
