"""The table as an Arrow table: nothing is lost, any matcher takes it, and a hostile one is refused whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from earmark import Matcher
from earmark.engine.version import IndexedSegment
from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError
from earmark.keys.strings import StringKeys

TYPES = {"d": "date", "m": "decimal(9,2)", "t": "timestamp", "unused": "float"}
CONDITIONS = [
    "age BETWEEN 22 AND 36 AND city IN ('Oslo', 'Rome', 'Ürümqi 🏙')",
    "age < 3 AND age > 5",
    "price > 1.5D OR city LIKE 'pre%' OR ok",
    "d >= '2024-02-29' AND m != 1.25 AND NOT (age = 7)",
    "city IS NULL AND price IS NOT NULL",
    "city > 'Rome' AND other != '' AND t < '2024-03-31 02:30:00'",
    "city >= 'pre' AND city < 'prf'",
    "TRUE",
    "FALSE",
]
EVENTS: list[dict[str, Any]] = [
    {"age": 30, "city": "Rome"},
    {"age": 30, "city": "Romea", "other": "x", "t": datetime(2024, 3, 31)},
    {"price": 2.0, "city": "prefix"},
    {"ok": True, "city": "pr"},
    {"d": date(2024, 3, 1), "m": 2, "age": 8, "price": 0.5},
    {"age": 25, "city": "Ürümqi 🏙", "other": ""},
    {},
]


def matcher(**more: Any) -> Matcher:
    return Matcher(attributes=TYPES, zone="Europe/Paris", **more)


def filled(ready_made: bool = True) -> Matcher:
    m = matcher()
    m.add("dead", "age = 1 AND nowhere = 'else' AND city = 'dead'")
    for i, condition in enumerate(CONDITIONS):
        weights = {"age": 0.25 + i} if "age" in condition else None
        m.add(f"s{i} é", condition, weights=weights, score=i / 2, tags={"tenant": f"t{i % 2}"} if i % 3 else None)
    if ready_made:
        columns = {"id": ["r1", "r2", "r3"], "age_lo": [1, None, 9], "age_hi": [40, None, 3]}
        m.add_many(pa.table({**columns, "city_lo": ["P", "a", None], "city_hi": ["S", None, None]}))
    m.remove("dead")
    m.update("s0 é", score=9.0)  # in place, so slots are no longer in order of sequence
    return m


def answers(m: Matcher) -> list[Any]:
    found: list[Any] = []
    for event in EVENTS:
        found += [
            m.match(event),
            m.top_k(event),
            m.top_k(event, mode="relaxed"),
            m.match(event, scope={"tenant": "t1"}),
        ]
    return [*found, m.ids(), [m[one] for one in m.ids()], m.never_matching()]


def others() -> Matcher:
    """A matcher with other attribute numbers, other string keys and rows of its own."""
    m = matcher()
    m.add_many([(f"o{i}", f"zzz = {i} AND city = 'c{i}' AND other > 'o{i}' AND price > {i}.5D") for i in range(40)])
    m.add("ok", "ok AND age >= 30 AND city = 'Rome'")
    m.remove("ok")
    return m


# --- there and back --------------------------------------------------------------------------------------------------


def test_nothing_is_lost() -> None:
    before = filled()
    frame = before.to_arrow()
    after = matcher()
    assert after.add_many(frame) == len(before) == frame.num_rows
    assert answers(after) == answers(before)
    after._version.check()
    again = after.to_arrow()  # strings may have other keys now, and bounds with them
    assert again.drop_columns("clauses").equals(frame.drop_columns("clauses"))
    assert again.schema.metadata[b"earmark.table"] == frame.schema.metadata[b"earmark.table"]


def test_what_the_columns_say() -> None:
    before = filled()
    frame = before.to_arrow()
    assert frame.column_names == ["id", "sequence", "score", "condition", "check", "tags", "clauses"]
    assert frame["condition"].to_pylist() == [*CONDITIONS, None, None, None]
    assert frame["id"].to_pylist() == before.ids()
    assert frame["sequence"].to_pylist() == list(range(1, 13))
    assert frame["score"].to_pylist()[:3] == [9.0, 0.5, 1.0]
    assert frame["tags"].to_pylist()[1] == [("tenant", "t1")]
    frame.validate(full=True)


def test_types_keep_who_said_so() -> None:
    before, after = filled(), Matcher(zone="Europe/Paris")
    after.add_many(before.to_arrow())
    learned, declared = (
        {a.name: (str(a.type), a.declared, a.origin) for a in m._version.schema} for m in (after, before)
    )
    assert learned == declared
    with pytest.raises(AttributeTypeError, match="declared"):
        after.match({"unused": "text"})


def test_integers_as_ids_and_an_empty_table() -> None:
    m = Matcher()
    assert Matcher().add_many(m.to_arrow()) == 0
    m.add_many([(5, "a > 1"), (-(2**63), "a > 2")])
    back = Matcher()
    back.add_many(m.to_arrow())
    assert back.match({"a": 9}) == [5, -(2**63)]


def test_sequences_are_kept_when_the_matcher_is_empty() -> None:
    m = Matcher()
    m.add_many([(f"s{i}", "a = 1") for i in range(5)])
    m.remove_many(["s0", "s3"])
    back = Matcher()
    back.add_many(m.to_arrow())
    back.add("new", "a = 1")
    assert back.to_arrow()["sequence"].to_pylist() == [1, 2, 4, 5]
    for shuffled in (m.to_arrow().take([2, 0, 1]), pa.concat_tables([m.to_arrow().slice(1), m.to_arrow().slice(0, 1)])):
        back = Matcher()
        back.add_many(shuffled)
        assert back.match({"a": 1}) == ["s1", "s2", "s4"]


def test_into_a_matcher_with_other_numbers_and_keys() -> None:
    before, after = filled(), others()
    own = {str(e): after.match(e) for e in EVENTS}
    after.add_many(before.to_arrow())
    after._version.check()
    for event in EVENTS:
        assert after.match(event) == own[str(event)] + before.match(event)
    texts = [one for one in before.ids() if str(one).startswith("s")]
    assert [after[one] for one in texts] == [before[one] for one in texts]
    assert after.ids()[-len(before) :] == before.ids()
    assert after.never_matching() == before.never_matching()
    once_more = others()
    once_more.add_many(after.to_arrow().filter(pa.compute.starts_with(after.to_arrow()["id"], "s")))
    for event in EVENTS:
        assert once_more.match(event) == own[str(event)] + [one for one in before.match(event) if str(one)[0] == "s"]


def test_strings_that_need_relabelling_on_the_way_in() -> None:
    """The target's constants leave no gap where the new ones must go."""
    target, source = Matcher(), Matcher()
    target.add("own", "s >= 'm' AND s < 'n'")
    packed = StringKeys.from_items([b"", b"m", b"n"], [-(2**63), 0, 2])
    version, whole = target._version, target._version.whole
    schema = version.schema.rekeyed((), {0: packed})
    moved = replace(whole, schema=schema, arrays=whole.arrays._replace(lo=np.array([0]), hi=np.array([1])))
    target._replace(version.with_schema(schema).with_segments([IndexedSegment.of(moved)]))
    source.add("more", "s LIKE 'mm%' OR s > 'n'")
    target.add_many(source.to_arrow())
    assert target._version.schema.generation != schema.generation
    assert [target.match({"s": s}) for s in ("m", "mm", "mmx", "mn", "n", "na")] == [
        ["own"],
        ["own", "more"],
        ["own", "more"],
        ["own"],
        [],
        ["more"],
    ]


@pytest.mark.parametrize("rows", [slice(0, 0), slice(0, 1), slice(3, 9), slice(11, 12), slice(None)])
def test_slices(rows: slice) -> None:
    before, after = filled(), matcher()
    start, stop, _ = rows.indices(len(before))
    after.add_many(before.to_arrow().slice(start, stop - start))
    chosen = before.ids()[rows]
    for event in EVENTS:
        assert after.match(event) == [one for one in before.match(event) if one in chosen]
    assert [after[one] for one in chosen] == [before[one] for one in chosen]


def test_chunks_and_batches() -> None:
    before = filled()
    frame = before.to_arrow()
    chunked = pa.concat_tables([frame.slice(0, 4), frame.slice(4, 0), frame.slice(4)])
    reader = pa.RecordBatchReader.from_batches(frame.schema, frame.to_batches(max_chunksize=2))
    for given in (chunked, reader, frame.combine_chunks().to_batches()[0], frame.take(list(range(12)))):
        after = matcher()
        after.add_many(given)
        assert answers(after) == answers(before)


def test_through_files(tmp_path: Path) -> None:
    before = filled()
    pq.write_table(before.to_arrow(), tmp_path / "t.parquet", row_group_size=5)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_file(sink, before.to_arrow().schema) as out:
        out.write_table(before.to_arrow(), max_chunksize=3)
    with pa.memory_map(str(tmp_path / "t.arrow")) as source:
        streamed = pa.ipc.open_file(source).read_all()
        for frame in (pq.read_table(tmp_path / "t.parquet"), streamed):
            after = matcher()
            after.add_many(frame)
            assert answers(after) == answers(before)


@pytest.mark.parametrize(
    "change", [lambda f: pl.from_arrow(f), lambda f: f.to_pandas(), lambda f: pa.table(f.to_pydict())]
)
def test_without_its_metadata_it_is_refused(change: Callable[[pa.Table], Any]) -> None:
    """polars and pandas drop it; a plain frame of conditions is what they carry."""
    before, after = filled(), matcher()
    with pytest.raises(SubscriptionError, match=r"has lost its metadata .*use to_frame\(\)"):
        after.add_many(change(before.to_arrow().replace_schema_metadata(None).drop_columns("tags")))
    assert len(after) == 0
    assert after.add_many(change(before.to_frame())) == len(before)
    assert after.ids() == before.ids()
    assert [after.match(event) for event in EVENTS] == [before.match(event) for event in EVENTS]
    assert [(s.weights, s.score, s.tags) for s in map(after.__getitem__, after)] == [
        (s.weights, s.score, s.tags) for s in map(before.__getitem__, before)
    ]


def test_events_and_updates_after_the_way_in() -> None:
    """What was asked came along, so bounds can be worked out again."""
    before, after = Matcher(), Matcher()
    before.add("x", "a > 3 AND a < 9 AND b = 'q'", weights={"a": 0.5})
    after.add_many(before.to_arrow())
    assert after.match({"a": 3.5, "b": "q"}) == ["x"]
    assert after.match({"a": 3, "b": "q"}) == []
    after.update("x", "a = 4")
    assert after.match({"a": 4}) == ["x"]


# --- what does not fit -----------------------------------------------------------------------------------------------


def refused(m: Matcher, frame: Any, match: str, error: type[EarmarkError] = SubscriptionError) -> None:
    """The error, and no trace of the attempt."""
    before = m.ids(), m.stats()["attributes"], m._version.slots
    with pytest.raises(error, match=match):
        m.add_many(frame)
    assert (m.ids(), m.stats()["attributes"], m._version.slots) == before
    m._version.check()


def test_ids_in_use() -> None:
    m = filled()
    refused(m, m.to_arrow(), "subscription 's0 é': the id is already in use")
    refused(matcher(), pa.concat_tables([m.to_arrow(), m.to_arrow()]), "given twice")
    numbered = matcher()
    numbered.add(1, "x = 1")
    refused(numbered, m.to_arrow(), "expected an integer as id, as the other ids are")


def test_another_type_for_an_attribute() -> None:
    m = Matcher(attributes={"age": "string"}, zone="Europe/Paris")
    refused(m, filled().to_arrow(), r"'age' is string \(declared\) here, but number", AttributeTypeError)


def test_another_zone() -> None:
    refused(Matcher(), filled().to_arrow(), r"'Europe/Paris', this matcher in 'UTC'; add it to a Matcher\(zone=")
    plain = Matcher(zone="Asia/Tokyo")
    plain.add("x", "a = 1")
    m = Matcher()
    m.add_many(plain.to_arrow())  # no times, so the zone says nothing
    assert m.ids() == ["x"]


def with_record(frame: pa.Table, change: Callable[[dict[str, Any]], object]) -> pa.Table:
    metadata = dict(frame.schema.metadata)
    record = json.loads(metadata[b"earmark.table"])
    change(record)
    return frame.replace_schema_metadata({**metadata, b"earmark.table": json.dumps(record).encode()})


def with_metadata(frame: pa.Table, name: bytes, value: bytes | None) -> pa.Table:
    metadata = {**frame.schema.metadata, name: value}
    return frame.replace_schema_metadata({k: v for k, v in metadata.items() if v is not None})


def strings(**columns: Any) -> bytes:
    batch = pa.record_batch(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


HOSTILE: dict[str, Callable[[pa.Table], pa.Table]] = {
    "no record": lambda f: with_metadata(f, b"earmark.table", b""),
    "a record that is no JSON": lambda f: with_metadata(f, b"earmark.table", b"{"),
    "a record that is a list": lambda f: with_metadata(f, b"earmark.table", b"[]"),
    "a deep record": lambda f: with_metadata(f, b"earmark.table", b"[" * 100_000),
    "a record that is no UTF-8": lambda f: with_metadata(f, b"earmark.table", b"\xff\xfe\xfd"),
    "a newer version": lambda f: with_record(f, lambda r: r.update(version=2)),
    "no version": lambda f: with_record(f, lambda r: r.pop("version")),
    "no zone": lambda f: with_record(f, lambda r: r.pop("zone")),
    "a foreign zone": lambda f: with_record(f, lambda r: r.update(zone="Mars/Olympus")),
    "no attributes": lambda f: with_record(f, lambda r: r.update(attributes=[])),
    "attributes of nothing": lambda f: with_record(f, lambda r: r.update(attributes=[{}])),
    "an attribute twice": lambda f: with_record(f, lambda r: r["attributes"][0].update(name="age")),
    "a nameless attribute": lambda f: with_record(f, lambda r: r["attributes"][0].update(name="")),
    "an unknown type": lambda f: with_record(f, lambda r: r["attributes"][0].update(type="blob")),
    "a narrower type": lambda f: with_record(f, lambda r: r["attributes"][4].update(type="boolean")),
    "no strings": lambda f: with_metadata(f, b"earmark.strings", None),
    "strings of nothing": lambda f: with_metadata(f, b"earmark.strings", b""),
    "strings that are rubbish": lambda f: with_metadata(f, b"earmark.strings", b"rubbish" * 9),
    "half of the strings": lambda f: with_metadata(f, b"earmark.strings", f.schema.metadata[b"earmark.strings"][:200]),
    "other columns of strings": lambda f: with_metadata(f, b"earmark.strings", strings(a=[1])),
    "strings without ''": lambda f: with_metadata(
        f, b"earmark.strings", strings(attribute=[5], constant=[b"x"], key=[0])
    ),
    "strings that are texts": lambda f: with_metadata(
        f, b"earmark.strings", strings(attribute=[5], constant=[""], key=[-(2**63)])
    ),
    "keys of nothing": lambda f: with_metadata(
        f, b"earmark.strings", strings(attribute=[5], constant=[b""], key=pa.array([None], pa.int64()))
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("target", [matcher, others])
def test_hostile_metadata(name: str, target: Callable[[], Matcher]) -> None:
    refused(target(), HOSTILE[name](filled().to_arrow()), r".", EarmarkError)


def column(frame: pa.Table, name: str, values: Any) -> pa.Table:
    return frame.set_column(frame.column_names.index(name), name, values)


def clauses(frame: pa.Table, change: Callable[[list[Any]], object]) -> pa.Table:
    rows = frame["clauses"].to_pylist()
    change(rows)
    return column(frame, "clauses", pa.array(rows, frame["clauses"].type))


def constraint(**changes: Any) -> Callable[[pa.Table], pa.Table]:
    return lambda f: clauses(f, lambda rows: rows[0][0][0].update(changes))


TAMPERED: dict[str, Callable[[pa.Table], pa.Table]] = {
    **{f"without {name}": lambda f, name=name: f.drop_columns([name]) for name in filled().to_arrow().column_names},
    "ids of nothing": lambda f: column(f, "id", pa.nulls(12, pa.string())),
    "ids as floats": lambda f: column(f, "id", pa.array(np.arange(12) + 0.5)),
    "an empty id": lambda f: column(f, "id", pa.array(["", *map(str, range(11))])),
    "conditions as lists": lambda f: column(f, "condition", pa.array([[1]] * 12)),
    "conditions as structs": lambda f: column(f, "condition", pa.array([{"a": 1}] * 12)),
    "scores of nothing": lambda f: column(f, "score", pa.nulls(12, pa.float64())),
    "a score of NaN": lambda f: column(f, "score", pa.array([float("nan")] * 12)),
    "scores as texts": lambda f: column(f, "score", pa.array(["x"] * 12)),
    "sequences of nothing": lambda f: column(f, "sequence", pa.nulls(12, pa.int64())),
    "negative sequences": lambda f: column(f, "sequence", pa.array(range(-12, 0))),
    "an endless sequence": lambda f: column(f, "sequence", pa.array(range(2**63 - 12, 2**63))),
    "tags as numbers": lambda f: column(f, "tags", pa.array(range(12))),
    "tags without a text": lambda f: column(f, "tags", pa.array([[("a", None)]] * 12, f["tags"].type)),
    "clauses of nothing": lambda f: column(f, "clauses", pa.nulls(12, f["clauses"].type)),
    "clauses as numbers": lambda f: column(f, "clauses", pa.array(range(12))),
    "a clause of nothing": lambda f: clauses(f, lambda rows: rows[0].append(None)),
    "a constraint of nothing": lambda f: clauses(f, lambda rows: rows[0][0].append(None)),
    "an unknown attribute": constraint(attribute=99),
    "a negative attribute": constraint(attribute=-1),
    "no attribute": constraint(attribute=None),
    "no weight": constraint(weight=None),
    "a negative weight": constraint(weight=-1.0),
    "an infinite weight": constraint(weight=float("inf")),
    "maybe NULL": constraint(accepts_null=None),
    "intervals of nothing": constraint(intervals=None),
    "an interval of nothing": constraint(intervals=[None]),
    "half an interval": constraint(intervals=[{"lo": 1, "hi": None}]),
    "a reversed interval": constraint(intervals=[{"lo": 5, "hi": 4}]),
    "intervals that overlap": constraint(intervals=[{"lo": 1, "hi": 9}, {"lo": 5, "hi": 12}]),
    "an attribute twice": lambda f: clauses(f, lambda rows: rows[0][0].append(dict(rows[0][0][0]))),
}


@pytest.mark.parametrize("name", TAMPERED)
@pytest.mark.parametrize("target", [matcher, others])
def test_tampered_columns(name: str, target: Callable[[], Matcher]) -> None:
    refused(target(), TAMPERED[name](filled().to_arrow()), r".", EarmarkError)


def test_other_layouts_of_the_same_columns() -> None:
    """As other tools may write them back."""
    before = filled()
    frame = before.to_arrow()
    for name, type_ in (("id", pa.large_string()), ("condition", pa.large_string()), ("sequence", pa.int32())):
        frame = column(frame, name, frame[name].cast(type_))
    frame = column(frame, "id", frame["id"].dictionary_encode())
    after = matcher()
    after.add_many(frame.select(frame.column_names[::-1]))
    assert answers(after) == answers(before)


def test_pandas_frames_of_conditions_with_holes_are_told_by_row() -> None:
    frame = pd.DataFrame({"id": ["a", "b"], "condition": ["x = 1", None]})
    with pytest.raises(SubscriptionError, match=r"row 1.*b"):
        Matcher().add_many(frame)
