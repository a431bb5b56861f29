"""A refused row left its constants behind, under the number of an attribute that the next row then used.

Rows are refused one by one when Spark publishes with `on_error="reject"`; the executor failed with a KeyError, or a
timestamp became a wide number.
"""

from __future__ import annotations

from earmark.errors import AttributeTypeError
from earmark.keys.schema import Kind, Schema
from earmark.segment.builder import Builder

WIDE = "i = 9300000000000000000 AND d > DATE '1970-01-01'"
TEXT = "i = 'a' AND d > DATE '1970-01-01'"


def kinds_after(refused: str, then: str) -> dict[str, Kind]:
    builder = Builder(Schema())
    builder.take((1, "d = 'a string'"))
    try:
        builder.take((2, refused))
    except AttributeTypeError:
        pass
    else:
        raise AssertionError("the row was to be refused")
    builder.take((3, then))
    segment = builder.prepared().segment(0)
    segment.check()
    return {a.name: a.known_type.kind for a in segment.schema}


def test_a_wide_number_of_a_refused_row() -> None:
    assert kinds_after(WIDE, "t > TIMESTAMP '2024-02-29 12:00:00'") == {"d": Kind.STRING, "t": Kind.TIMESTAMP}
    assert kinds_after(WIDE, "t < 5") == {"d": Kind.STRING, "t": Kind.NUMBER}


def test_a_string_of_a_refused_row() -> None:
    assert kinds_after(TEXT, "t > TIMESTAMP '2024-02-29 12:00:00'") == {"d": Kind.STRING, "t": Kind.TIMESTAMP}
    assert kinds_after(TEXT, "t < 5") == {"d": Kind.STRING, "t": Kind.NUMBER}


def test_an_attribute_that_was_known_without_a_type() -> None:
    builder = Builder(Schema())
    builder.take((1, "d = 'a string' AND i IS NOT NULL AND z = 3"))
    for refused in (WIDE, TEXT):
        try:
            builder.take((2, refused))
        except AttributeTypeError:
            continue
    builder.take((3, "i > TIMESTAMP '2024-02-29 12:00:00'"))
    segment = builder.prepared().segment(0)
    segment.check()
    assert segment.schema.names == ["d", "i", "z"]
    assert segment.schema.by_name["i"].known_type.kind == Kind.TIMESTAMP
