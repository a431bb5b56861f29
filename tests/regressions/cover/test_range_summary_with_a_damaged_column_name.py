"""A changed byte in a column's name came out of pyarrow as a UnicodeDecodeError; it must be our own error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earmark import Matcher
from earmark.cover import RangeSummary, summarize
from earmark.errors import TableError


def summary() -> pa.Table:
    matcher = Matcher("scan")
    matcher.add(1, "price BETWEEN 10 AND 20")
    return summarize(matcher, [], 0.0).to_arrow()


@pytest.mark.parametrize("name", [b"first", b"last"])
@pytest.mark.parametrize("byte", [0x80, 0xFF])
def test_a_file(tmp_path: Path, name: bytes, byte: int) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(summary(), path, store_schema=False)
    whole = bytearray(path.read_bytes())
    places = [i for i in range(len(whole)) if whole.startswith(name, i)]
    assert places
    for place in places:
        damaged = whole.copy()
        damaged[place] = byte
        path.write_bytes(bytes(damaged))
        with pytest.raises(TableError, match="cannot be read as a range summary"):
            RangeSummary.open(path)


def test_a_table() -> None:
    good = summary()
    schema = pa.schema([pa.field(b"f\xff", pa.int64()), pa.field("last", pa.int64())], good.schema.metadata)
    with pytest.raises(TableError, match="the name of a column is not UTF-8"):
        RangeSummary.from_arrow(pa.Table.from_arrays(good.columns, schema=schema))
