"""A ready-made attribute called `x.` was taken, and its condition, written out, could not be read again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher, SubscriptionError


@pytest.mark.parametrize("name", ["x.", ".x", "a..b", ".", "a" + ".a" * 40])
def test_it_is_refused(name: str) -> None:
    m = Matcher("scan")
    with pytest.raises(
        EarmarkError, match="expected a name of 1 to 40 parts with dots between them, none of them empty"
    ):
        m.add_many(pa.table({"id": [1], f"{name}_lo": [1], f"{name}_hi": [5]}))
    with pytest.raises(EarmarkError, match="none of them empty"):
        Matcher(attributes={name: "integer"})
    with pytest.raises(SubscriptionError):
        m.add(1, f"{name} > 3")
    assert m.ids() == [] and m.attributes == {}


@pytest.mark.parametrize("name", ["x.y", "a b", "select", "a`b", "é.ü", "a" + ".a" * 39])
def test_others_are_written_so_that_they_can_be_read(name: str) -> None:
    m = Matcher("scan")
    m.add_many(pa.table({"id": [1], f"{name}_lo": [1], f"{name}_hi": [5]}))
    other = Matcher("scan")
    other.add(1, m[1].condition)
    assert other.match({name: 3}) == [1] and other.match({name: 6}) == []
