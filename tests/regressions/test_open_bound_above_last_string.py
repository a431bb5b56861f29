"""`s > 'z'` was lost on relabelling when 'z' had the last key but one: its bound was taken for no bound."""

from __future__ import annotations

from earmark import Matcher
from earmark.model.strings import StringKeys

LEAST, GREATEST = -(2**63), 2**63 - 1


def test_the_bound_moves_with_its_constant() -> None:
    m = Matcher()
    m.add("above z", "s > 'z'")
    strings = m._table.schema.strings[0]
    old = strings.of_constant(b"z")
    packed = StringKeys.from_items([b"", b"z"], [LEAST, GREATEST - 1])
    m._table._columns["lo"]._data[0] += GREATEST - 1 - old
    m._table.schema.strings[0] = packed
    m._publish()
    assert m.match({"s": "zz"}) == ["above z"]
    m.add("no room", "s = 'zzz'")
    assert m.stats()["generation"] == 1
    assert m.match({"s": "zz"}) == ["above z"]
    assert m.match({"s": "z"}) == []
