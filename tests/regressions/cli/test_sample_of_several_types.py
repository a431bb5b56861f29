"""A sample whose batches differ in type (whole numbers, then fractions) was put together as one table, and failed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from earmark import Matcher
from earmark.cli.search import Sample, sampled
from earmark.events.frames import encode_many
from earmark.tabular.source import source_of


@pytest.mark.parametrize("late", ["1.5", "3.5"])
def test_fractions_late_in_a_csv_file(tmp_path: Path, late: str) -> None:
    m = Matcher()
    m.add_many([(1, "y > 3"), (2, "y < 2")])
    path = tmp_path / "events.csv"
    path.write_text("y\n" + "".join(f"{i % 10}\n" for i in range(17_000)) + f"{late}\n" * 9)
    view, events = sampled(m, source_of(str(path)), 0)
    assert str(next(iter(view.schema)).type) == "number"
    values = [{"y": i % 10} for i in range(17_000)] + [{"y": float(late)}] * 9
    expected = encode_many(m._version.whole.schema, values)
    assert np.array_equal(events.start, expected.start) and np.array_equal(events.attr, expected.attr)
    assert np.array_equal(events.lo, expected.lo) and np.array_equal(events.hi, expected.hi)


def test_zones_late_in_a_csv_file(tmp_path: Path) -> None:
    m = Matcher()
    m.add(1, "t > TIMESTAMP '2024-01-01 12:00:00'")
    path = tmp_path / "events.csv"
    path.write_text("t\n" + "2024-01-01 13:00:00\n" * 16_384 + "2024-01-01 13:00:00+02:00\n" * 9)
    events = sampled(m, source_of(str(path)), 0)[1]
    assert len(events.start) - 1 == 16_393
    assert len(set(events.lo[:16_384].tolist())) == len(set(events.lo[16_384:].tolist())) == 1
    assert events.lo[0] - events.lo[-1] == 2 * 3600 * 10**6


def test_a_large_file_is_not_held() -> None:
    """The least numbers stay, in order; types may change in between, and lists come as well as tables."""
    m = Matcher()
    m.add(1, "y > 3")
    sample, held = Sample(m._version.whole.schema, 3, most=100), 0
    for i in range(400):
        values = np.arange(20 * i, 20 * i + 20)
        sample.add(pa.table({"y": values / 2 if i % 100 > 50 else values / 2 // 1}) if i % 7 else [{"y": i}] * 20)
        held = max(held, len(sample))
    events = sample.cut()
    assert len(events.start) - 1 == 100 and held <= 220
    drawn = np.random.default_rng(3).random(8_000)
    chosen = np.sort(np.argsort(drawn)[:100])
    values = np.array([i // 20 if i // 20 % 7 == 0 else i / 2 if i // 20 % 100 > 50 else i // 2 for i in chosen])
    assert np.array_equal(events.lo, encode_many(m._version.whole.schema, pa.table({"y": values.astype(float)})).lo)


def test_no_file_and_an_empty_one(tmp_path: Path) -> None:
    m = Matcher()
    m.add(1, "y > 3")
    path = tmp_path / "events.csv"
    path.write_text("y\n")
    for source in (None, source_of(str(path))):
        assert len(sampled(m, source, 0)[1].start) == 1
