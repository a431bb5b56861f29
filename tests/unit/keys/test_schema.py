"""Types, attributes and zones: what names mean, and that a draft leaves no trace until it is committed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from earmark.errors import AttributeTypeError, EarmarkError
from earmark.keys.numbers import float_key
from earmark.keys.schema import INT64_MAX, INT64_MIN, Attribute, Draft, Schema, attribute_type
from earmark.keys.strings import StringKeys
from earmark.language.literals import zone_of
from earmark.language.predicate import MAX_NAME


@pytest.mark.parametrize(
    ("name", "canonical", "low", "high"),
    [
        ("integer", "integer", INT64_MIN, INT64_MAX),
        ("BIGINT", "integer", INT64_MIN, INT64_MAX),
        (" int ", "integer", INT64_MIN, INT64_MAX),
        ("long", "integer", INT64_MIN, INT64_MAX),
        ("double", "float", float_key(float("-inf")), float_key(float("nan"))),
        ("bool", "boolean", 0, 1),
        ("str", "string", INT64_MIN, INT64_MAX),
        ("date", "date", -(2**31), 2**31 - 1),
        ("timestamp", "timestamp", INT64_MIN, INT64_MAX),
        ("decimal(18, 18)", "decimal(18,18)", 1 - 10**18, 10**18 - 1),
        ("Decimal( 1 , 0 )", "decimal(1,0)", -9, 9),
    ],
)
def test_types_by_name(name: str, canonical: str, low: int, high: int) -> None:
    type_ = attribute_type(name)
    assert (str(type_), type_.low, type_.high) == (canonical, low, high)
    assert attribute_type(str(type_)) == type_


@pytest.mark.parametrize("name", ["", "blob", "decimal", "decimal(19,0)", "decimal(2,3)", "decimal(0,0)", "integer x"])
def test_names_that_are_no_type(name: str) -> None:
    with pytest.raises(EarmarkError, match=r"is not a type|out of range"):
        attribute_type(name)


def test_a_type_is_given_by_name() -> None:
    with pytest.raises(EarmarkError, match="expected the name of a type, such as 'integer', got <class 'int'>"):
        attribute_type(int)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "x" * (MAX_NAME + 1), "\ud800", 5, None, b"a"])
def test_names_that_no_attribute_can_have(name: Any) -> None:
    with pytest.raises(EarmarkError):
        Draft(Schema()).get(name)


def test_a_draft_leaves_no_trace_until_it_is_committed() -> None:
    schema = Schema()
    schema.declare({"a": "integer"})
    draft = Draft(schema)
    b = draft.get("b")
    draft.set_type(b, attribute_type("string"), "subscription 'x'")
    draft.constant(draft.get("b"), b"k")
    draft.get("c")
    assert schema.names == ["a"]
    assert schema.strings == {}
    old, schema = schema, draft.commit()
    assert (old.names, old.strings, list(old.by_name)) == (["a"], {}, ["a"])
    assert schema.names == ["a", "b", "c"]
    assert [attribute.number for attribute in schema] == [0, 1, 2]
    assert schema.by_name["c"].type is None
    assert list(schema.strings) == [1]
    assert draft.constants == {1: {b"k"}}


def test_a_type_is_fixed_once() -> None:
    schema = Schema()
    schema.declare({"a": "integer"})
    schema.declare({"a": "bigint"})
    with pytest.raises(AttributeTypeError, match=r"'a' is integer \(declared\), it cannot become float"):
        schema.declare({"b": "string", "a": "float"})
    assert schema.names == ["a"]


def test_a_replaced_schema_leaves_the_old_one() -> None:
    schema = Schema("Europe/Paris")
    schema.declare({"s": "string", "i": "integer"})
    keys = StringKeys()
    other = schema.replaced((), {0: keys})
    assert other.strings[0] is keys is not schema.strings[0]
    wider = schema.replaced([replace(schema.by_name["i"], type=attribute_type("float"))])
    assert (str(schema.by_name["i"].type), str(wider.by_name["i"].type)) == ("integer", "float")
    assert wider.strings[0] is schema.strings[0]
    assert {other.zone_name, wider.zone_name} == {"Europe/Paris"}
    free = schema.replaced([replace(schema.by_name["s"], type=None)])
    assert (list(schema.strings), list(free.strings)) == ([0], [])


def test_a_schema_keeps_its_rules() -> None:
    schema = Schema("Europe/Paris", strict=True, nan_is_null=True)
    schema.declare({"age": "integer"})
    other = schema.replaced([replace(schema.by_name["age"], type=attribute_type("float"))])
    assert (other.strict, other.nan_is_null, other.zone_name) == (True, True, "Europe/Paris")
    with pytest.raises(EarmarkError, match="attribute 'agee' is not declared; did you mean 'age'"):
        Draft(other).get("agee")


def test_what_is_undone_was_never_there() -> None:
    draft = Draft(Schema())
    draft.get("a")
    mark = len(draft.log)
    draft.set_type(draft.get("a"), attribute_type("string"), "x")
    draft.get("b")
    assert draft.undo(mark)
    assert not draft.undo(mark)
    assert [(a.name, a.type, a.number) for a in draft.new.values()] == [("a", None, 0)]
    assert draft.get("c").number == 1


def test_domains() -> None:
    schema = Schema()
    schema.declare({"b": "boolean", "i": "integer", "n": "number"})
    schema = schema.replaced([Attribute(3, "x", None, False, "")])
    low, high = schema.domains
    assert low.tolist() == [0, -(2**63), -0x7FF0000000000000, -(2**63)]
    assert high.tolist() == [1, 2**63 - 1, 0x7FF0000000000001, 2**63 - 1]
    assert schema.typed.tolist() == [True, True, True, False]


def test_an_empty_schema_is_still_a_schema() -> None:
    assert Schema()
    assert len(Schema()) == 0


def test_how_an_attribute_is_described() -> None:
    type_ = attribute_type("float")
    assert Attribute(0, "a", type_, True, "its declaration").described() == "float (declared)"
    assert Attribute(0, "a", type_, False, "an event").described() == "float (first used so by an event)"


# --- zones -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "hours"),
    [("UTC", 0), ("Z", 0), ("+02:00", 2), ("-05:30", -5.5), ("+18:00", 18), ("Europe/Paris", 1), ("Etc/GMT+5", -5)],
)
def test_zones_by_name(name: str, hours: float) -> None:
    assert datetime(2024, 1, 1, tzinfo=zone_of(name)).utcoffset() == timedelta(hours=hours)
    assert zone_of("UTC") == UTC


@pytest.mark.parametrize(
    "name",
    ["", "Mars/Olympus", "+25:00", "+18:01", "+02:60", "../etc/passwd", "/etc/passwd", "Europe/../Paris", "a/\0"],
)
def test_names_that_are_no_zone(name: str) -> None:
    with pytest.raises(EarmarkError, match="not a time zone known here"):
        zone_of(name)


@pytest.mark.parametrize("name", [5, None, ["UTC"], b"UTC"])
def test_a_zone_is_given_by_name(name: Any) -> None:
    with pytest.raises(EarmarkError, match="expected the name of a time zone, such as 'Europe/Paris', got "):
        Schema(name)
