"""A batch on an empty Matcher fixed the column of ids as text, and the first integer id then broke every batch."""

from __future__ import annotations

from earmark import Matcher


def test_integer_ids_after_a_batch_on_an_empty_matcher() -> None:
    m = Matcher()
    assert m.match_many([{"a": 1}]).num_rows == 0
    m.add(1, "a > 0")
    assert m.match_many([{"a": 1}])["subscription"].to_pylist() == [1]
