"""A range summary read back: never a miss, whatever the values; files that are damaged are refused with a sentence."""

from __future__ import annotations

import contextlib
import json
from datetime import date, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.contract.book import as_event, rows
from tests.unit.cover.merging.test_merging import book_of

from earmark import EarmarkError, Interval, Matcher
from earmark.cli.app import main
from earmark.cover import RangeSummary, summarize
from earmark.cover.ranges import summary as summaries
from earmark.cover.ranges.summary import KEYS_KEY
from earmark.errors import EventError, TableError
from earmark.events.frames import encode_many
from earmark.language.predicate import literal_sql


def read_back(matcher: Matcher, sample: Any = (), budget: float = 0.0, **options: Any) -> RangeSummary:
    return RangeSummary.from_arrow(summarize(matcher, list(sample), budget, **options).to_arrow())


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 6))
def test_never_a_miss(seed: int) -> None:
    """Every type, points and intervals, by the oracle; and exactly what the summary says before it is written."""
    rng = Random(seed)
    matcher, book = book_of(rng, 12)
    matcher.add(99, "i0 > 3")  # so that there is an attribute to have cells
    sample, fresh = rows(rng, book, 40), rows(rng, book, 40)
    options: dict[str, Any] = {"axes": rng.choice((1, 2, 3)), "cell_bits": rng.choice((2, 4, 8))}
    made = summarize(matcher, [as_event(row) for row in sample], rng.choice((0.0, 1.0, 1e9)), **options)
    opened = RangeSummary.from_arrow(made.to_arrow())
    events = [as_event(row) for row in fresh]
    wanted = opened.wants(events)
    assert all(wanted[i] or not book.scored(row) for i, row in enumerate(fresh))
    assert wanted.tolist() == made.holds(encode_many(matcher._version.whole.schema, events)).tolist()
    assert opened.wants([]).tolist() == []


TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)


@given(
    constants=st.lists(TEXTS, min_size=1, max_size=5), values=st.lists(TEXTS, min_size=1, max_size=8), data=st.data()
)
@example(constants=["a\U0010ffff"], values=["a\U0010ffffz", "b", "a"], data=None)
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 4))
def test_strings_that_nobody_has_seen(constants: list[str], values: list[str], data: st.DataObject | None) -> None:
    """They lie between the constants, also where a LIKE ends at bytes that are no text."""
    matcher = Matcher(index="scan", attributes={"s": "string"})
    for i, constant in enumerate(constants):
        escaped = constant.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
        written, like = literal_sql(constant), literal_sql(escaped + "%")
        forms = [f"s > {written}", f"s <= {written}", f"s = {written}", f"s LIKE {like}", f"s <> {written}"]
        text = forms[3] if data is None else data.draw(st.sampled_from(forms))
        matcher.add(i, text)
    opened = read_back(matcher)
    events = [{"s": value} for value in [*values, *constants, "", *(c + "\x00" for c in constants)]]
    wanted = opened.wants(events)
    for event, one in zip(events, wanted.tolist(), strict=True):
        assert one or not matcher.match(event)
    again = opened.wants(pa.table({"s": [event["s"] for event in events]}))
    assert again.tolist() == wanted.tolist()


def test_what_is_far_off_is_not_wanted() -> None:
    matcher = Matcher()
    matcher.add("oslo", "city = 'Oslo' AND price BETWEEN 10 AND 20")
    matcher.add("rome", "city LIKE 'Rom%' AND price > 100")
    opened = read_back(matcher)
    events = [
        {"city": "Oslo", "price": 15},
        {"city": "Oslo", "price": 21},
        {"city": "Rome", "price": 101},
        {"city": "Romulus", "price": 1_000, "colour": "red"},
        {"city": "Rp", "price": 1_000},
        {"city": "Roma"},
        {},
    ]
    assert opened.wants(events).tolist() == [True, False, True, True, False, False, False]
    for frame in (pa.Table.from_pylist(events), pd.DataFrame(events[:4]), pl.DataFrame(events[:4])):
        held = opened.wants(frame)
        assert held.tolist() == [True, False, True, True, False, False, False][: len(held)]
    assert len(opened) == len(opened.ranges.first) > 0


def test_a_fraction_among_whole_numbers_cannot_be_ruled_out() -> None:
    """`x > 3 AND x < 4` takes no whole number, but 3.5 once the matcher has met one: the summary must not miss it."""
    matcher = Matcher()
    matcher.add("none", "x > 3 AND x < 4")
    matcher.add("some", "x BETWEEN 10 AND 20")
    matcher.add("great", "x > 9007199254740993")
    opened = read_back(matcher)
    values = [3.5, 3, 15.0, 15.5, 21, 21.0, float("nan"), float("inf"), 2**53 + 1, None]
    alone = [opened.wants([{"x": value}]).tolist()[0] for value in values]
    assert alone == [True, False, True, True, False, False, True, True, False, False]
    together = opened.wants([{"x": value} for value in values]).tolist()
    assert [a or b for a, b in zip(alone, together, strict=True)] == together  # what a double blurs is wanted, too
    floats = pa.table({"x": pa.array([3.5, 3.0, 15.0, 21.0, None])})
    assert opened.wants(floats).tolist() == [True, False, True, False, False]
    spans = [{"x": Interval(20.5, None)}, {"x": Interval(21, 30)}, {"x": Interval(5, 10)}, {"x": Interval(3.1, 3.2)}]
    assert opened.wants(spans).tolist() == [True, False, True, True]
    matcher2 = Matcher()
    matcher2.add("none", "x > 3 AND x < 4")
    matcher2.add("some", "x BETWEEN 10 AND 20")
    assert matcher2.match({"x": 3.5}) == ["none"]


def test_types_zones_and_attributes_without_a_type() -> None:
    matcher = Matcher(attributes={"d": "date", "t": "timestamp", "p": "decimal(9,2)"}, zone="Europe/Paris")
    matcher.add(1, "d = DATE '2024-02-29' AND t >= TIMESTAMP '2024-03-01 12:00:00' AND p BETWEEN 1.25 AND 2")
    opened = read_back(matcher)
    assert opened.schema.zone_name == "Europe/Paris"
    good = {"d": "2024-02-29", "t": datetime(2024, 3, 1, 12), "p": 1.5}
    events = [good, {**good, "d": date(2024, 3, 1)}, {**good, "t": datetime(2024, 3, 1, 11, 59)}, {**good, "p": 3}]
    assert opened.wants(events).tolist() == [bool(matcher.match(event)) for event in events] == [True, *[False] * 3]
    untyped = Matcher()
    untyped.add(1, "x IS NULL")
    summary = read_back(untyped)
    assert summary.wants([{}, {"x": 3}]).tolist() == [True, False]
    assert summary.wants([{"x": "text"}, {"x": None}]).tolist() == [False, True]


def test_events_that_are_none() -> None:
    matcher = Matcher()
    matcher.add(1, "x > 3")
    opened = read_back(matcher)
    for nonsense in ({"x": 4}, 7, "text"):
        with pytest.raises(EventError, match="expected a sequence of events or a frame"):
            opened.wants(nonsense)
    with pytest.raises(EventError, match="the range summary"):
        opened.wants([{"x": "four"}])


# --- files -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good() -> pa.Table:
    matcher = Matcher()
    matcher.add(1, "city = 'Oslo' AND price BETWEEN 10 AND 20")
    matcher.add(2, "city > 'Rome' AND price > 100")
    return summarize(matcher, [], 0.0).to_arrow()


def test_compact_writes_what_open_reads(tmp_path: Path) -> None:
    (tmp_path / "ads.csv").write_text("id,condition\n1,x BETWEEN 3 AND 9 AND y = 'a'\n2,x > 50\n")
    (tmp_path / "past.jsonl").write_text('{"x": 5, "y": "a"}\n{"x": 20, "y": "b"}\n')
    asked = ["merge", "ads.csv", "--sample", "past.jsonl", "--ranges", "-o", "ranges.parquet"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        assert CliRunner().invoke(main, asked).exit_code == 0
    opened = RangeSummary.open(tmp_path / "ranges.parquet")
    assert opened.wants([{"x": 5, "y": "a"}, {"x": 20, "y": "b"}, {"x": 60}]).tolist() == [True, False, True]


def with_record(table: pa.Table, change: Any) -> pa.Table:
    record = json.loads(table.schema.metadata[KEYS_KEY])
    record = change(record) or record
    return table.replace_schema_metadata({KEYS_KEY: json.dumps(record).encode()})


def axis(**changes: Any) -> Any:
    return lambda record: record["axes"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda r: [1], "its version is None"),
        (lambda r: r.update(version=2), "its version is 2; this earmark reads 1"),
        (lambda r: r.update(version=True), "its version is True"),
        (lambda r: r.update(bits="3"), "'bits' '3', which is not a JSON int"),
        (lambda r: r.update(bits=0), "at most 20 axes of 1 to 16 bits"),
        (lambda r: r.update(bits=10**30), "at most 20 axes of 1 to 16 bits"),
        (lambda r: r.update(bits=40), "at most 20 axes of 1 to 16 bits"),
        (lambda r: r.update(bits=1), "expected at most 0 cuts"),
        (lambda r: r.update(bits=2), "expected at most 2 cuts"),
        (lambda r: r.update(axes=[]), "from 0 to 0"),
        (lambda r: r.update(axes=r["axes"] * 62, bits=1), "at most 20 axes of 1 to 16 bits"),
        (
            lambda r: r.update(axes=[{**r["axes"][0], "attribute": str(i)} for i in range(20)], bits=16),
            "at most 62 bits in all",
        ),
        (lambda r: r.update(axes=[3]), "an axis is not described"),
        (lambda r: r.update(axes=None), "not a JSON list"),
        (lambda r: r.update(axes=[r["axes"][0]] * 2), "has two axes"),
        (lambda r: r.update(zone="Nowhere/Land"), "not a time zone"),
        (lambda r: r.update(zone=7), "not a JSON str"),
        (axis(attribute=""), "an attribute's name"),
        (axis(attribute="\ud800"), "surrogate"),
        (axis(type="colour"), "is not a type"),
        (axis(type=3), "not a JSON str"),
        (axis(declared=1), "not a JSON bool"),
        (axis(keys="x"), "not a JSON list"),
        (axis(keys=[["zz", 0]]), "not a constant in hex"),
        (axis(keys=[["61", 2]]), "0, or just above it, 1"),
        (axis(keys=[["61", True]]), "not a constant in hex, and 0 or 1"),
        (axis(keys=[3]), "not a constant in hex, and 0 or 1"),
        (axis(keys=[["62", 0], ["61", 0]]), "do not ascend"),
        (axis(type="integer", keys=[2**63]), "not a 64-bit integer"),
        (axis(type="integer", keys=[True]), "not a 64-bit integer"),
        (axis(type="integer", keys=[1.5]), "not a 64-bit integer"),
        (axis(type="integer", keys=[5, 5]), "do not ascend"),
    ],
)
def test_a_record_that_makes_no_sense(good: pa.Table, change: Any, sentence: str) -> None:
    with pytest.raises(TableError, match=sentence):
        RangeSummary.from_arrow(with_record(good, change))


@pytest.mark.parametrize(
    ("first", "last"), [([3], [2]), ([-1], [2]), ([0], [2**40]), ([5, 1], [6, 2]), ([1, 2], [2, 3]), ([None], [2])]
)
def test_ranges_that_make_no_sense(good: pa.Table, first: list[int], last: list[int]) -> None:
    columns = {"first": pa.array(first, pa.int64()), "last": pa.array(last, pa.int64())}
    with pytest.raises(TableError, match=r"ascending, apart|no beginning"):
        RangeSummary.from_arrow(pa.table(columns).replace_schema_metadata(good.schema.metadata))


def test_files_that_are_no_summary(tmp_path: Path, good: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(good, path)
    assert len(RangeSummary.open(str(path))) == good.num_rows
    whole = path.read_bytes()
    for damaged in (b"", b"PAR1", whole[: len(whole) // 2], whole[:-1], np.random.default_rng(5).bytes(500)):
        path.write_bytes(damaged)
        with pytest.raises(TableError, match=r"s\.parquet' cannot be read as a range summary"):
            RangeSummary.open(path)
    for other in (good.select(["first"]), good.set_column(0, "first", good["first"].cast(pa.int32()))):
        pq.write_table(other, path)
        with pytest.raises(TableError, match="columns first and last"):
            RangeSummary.open(path)
    pq.write_table(good.replace_schema_metadata(None), path)
    with pytest.raises(TableError, match="the grid, are missing"):
        RangeSummary.open(path)
    for text in (b"{", b"[" * 100_000, b"\xff"):
        with pytest.raises(TableError, match="are not JSON"):
            RangeSummary.from_arrow(good.replace_schema_metadata({KEYS_KEY: text}))
    pq.write_table(good, path)
    monkeypatch.setattr(summaries, "MOST_RANGES", 0)
    with pytest.raises(TableError, match="a summary has at most 0"):
        RangeSummary.open(path)
    monkeypatch.setattr(summaries, "MOST_METADATA", 10)
    with pytest.raises(TableError, match="too long"):
        RangeSummary.from_arrow(good)
    with pytest.raises(TableError, match="there is no file"):
        RangeSummary.open(tmp_path / "none.parquet")
    with pytest.raises(TableError, match="there is no file"):
        RangeSummary.open(tmp_path)
    (tmp_path / "s.csv").write_text("first,last\n1,2\n")
    with pytest.raises(TableError, match=r"is no \.parquet file"):
        RangeSummary.open(tmp_path / "s.csv")


@given(seed=st.integers(0, 2**32))
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 4))
def test_a_byte_that_changed(tmp_path_factory: pytest.TempPathFactory, good: pa.Table, seed: int) -> None:
    """The file is refused, or it can be asked: nothing else is raised, nothing lies outside of an array."""
    rng = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("damaged") / "s.parquet"
    record = bytearray(good.schema.metadata[KEYS_KEY])
    for _ in range(int(rng.integers(1, 4))):
        record[rng.integers(len(record))] = rng.integers(32, 127)
    pq.write_table(good.replace_schema_metadata({KEYS_KEY: bytes(record)}), path)
    whole = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        whole[rng.integers(len(whole))] = rng.integers(256)
    path.write_bytes(bytes(whole))
    with contextlib.suppress(EarmarkError):
        RangeSummary.open(path).wants([{"city": "Oslo", "price": 3}, {}])
