"""The first value of an event, or a rule that was removed since, fixed an attribute's type for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from earmark import AttributeTypeError, Matcher


def test_an_event_teaches_nothing() -> None:
    m = Matcher()
    m.add("x", "age IS NULL")
    assert m.match({"age": "30"}) == []
    m.add("y", "age > 30")
    assert m.match({"age": 31}) == ["y"]
    with pytest.raises(AttributeTypeError, match="expected a number for 'age'"):
        m.match({"age": "31"})


@pytest.mark.parametrize("way", ["at once", "compacted", "saved", "as Arrow"])
def test_a_type_is_free_again(way: str, tmp_path: Path) -> None:
    m = Matcher()
    m.add("other", "city = 'Oslo' AND age IS NOT NULL")
    m.add("x", "age > '30'")
    m.remove("x")
    assert m.attributes["age"].type is None
    if way == "compacted":
        m.compact()
    elif way == "saved":
        m.save(tmp_path / "book")
        m = Matcher.load(tmp_path / "book")
    elif way == "as Arrow":
        other = Matcher()
        other.add_many(m.to_arrow())
        m = other
    assert m.match({"age": [1, 2], "city": "Oslo"}) == ["other"]
    m.add("y", "age > 30")
    assert m.match({"age": 31, "city": "Oslo"}) == ["other", "y"]
    assert m.match({"city": "Oslo"}) == []
    m.check()


def test_the_only_user_of_a_type_may_be_given_another() -> None:
    m = Matcher()
    m.add("x", "age > '30'")
    m.update("x", "age > 30")
    assert m.match({"age": 31}) == ["x"]
    assert m.attributes["age"].type == "number"


@pytest.mark.parametrize(("first", "value"), [("d", True), ("d > DATE '2024-01-01'", 5), ("d = 5", "x")])
def test_what_accepts_everything_goes_on_to_do_so(first: str, value: object) -> None:
    """IS NOT NULL, bound while the attribute had a narrow type, and the type then changed."""
    m = Matcher()
    m.add("typed", first)
    m.add("open", "d IS NOT NULL")
    m.remove("typed")
    assert m.match({"d": value}) == ["open"]
    m.add("text", "d = 'zebra'")
    assert m.match({"d": "zebra"}) == ["open", "text"]
    assert m.match({"d": "aardvark"}) == ["open"]
    m.check()
