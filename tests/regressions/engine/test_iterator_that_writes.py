"""A batch read while the lock was held let its own iterator add to the table that the batch was checked against."""

from __future__ import annotations

from collections.abc import Iterator

from earmark import Matcher


def test_an_iterator_that_adds() -> None:
    m = Matcher()

    def subscriptions() -> Iterator[tuple[str, str]]:
        yield "a", "x > 1"
        m.add("z", "y = 'q'")
        yield "b", "w > 1"

    assert m.add_many(subscriptions()) == 2
    m._version.check()
    assert m.match({"x": 2, "w": 2, "y": "q"}) == ["z", "a", "b"]
