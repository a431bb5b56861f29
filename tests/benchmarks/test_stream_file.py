"""What stream_file.py takes for right: the number of results, and what a terminal shows of the time left."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import stream_file
from earmark import Matcher
from earmark.tabular.source import source_of
from earmark.tabular.subscriptions import read_subscriptions


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_the_file_has_so_many_events(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"events.{kind}"
    stream_file.write_events(path, 3000)
    if kind == "parquet":
        assert pq.read_metadata(path).num_rows == 3000
    else:
        assert path.read_text().count("\n") == 3000 + (kind == "csv")


def test_so_many_results_are_right(tmp_path: Path) -> None:
    stream_file.write_subscriptions(tmp_path / "s.csv")
    matcher = Matcher()
    matcher.add_many(read_subscriptions(source_of(tmp_path / "s.csv"), {}).rows)
    (events,) = stream_file.tables(2000)
    assert matcher.match_many(events).num_rows == stream_file.wanted(2000)


def test_the_time_left() -> None:
    shown = "\r\x1b[?25l\x1b[?25hmatching  [###---------------------------]   11%  00:00:07\x1b[K"
    assert stream_file.TIME_LEFT.findall(shown) == [("11", "00:00:07")]
