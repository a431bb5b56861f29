"""`s > 'z'` was lost on relabelling when 'z' had the last key but one: its bound was taken for no bound."""

from __future__ import annotations

from dataclasses import replace

from earmark import Matcher
from earmark.keys.strings import StringKeys

LEAST, GREATEST = -(2**63), 2**63 - 1


def test_the_bound_moves_with_its_constant() -> None:
    m = Matcher()
    m.add("above z", "s > 'z'")
    table = m._table
    packed = StringKeys.from_items([b"", b"z"], [LEAST, GREATEST - 1])
    lo = table.arrays.lo + (GREATEST - 1 - table.schema.strings[0].of_constant(b"z"))
    moved = replace(table._with_bounds(lo, table.arrays.hi), schema=table.schema.replaced((), {0: packed}))
    m._publish(replace(moved, generation=1))
    assert m.match({"s": "zz"}) == ["above z"]
    m.add("no room", "s = 'zzz'")
    assert m.stats()["generation"] == 2
    assert m.match({"s": "zz"}) == ["above z"]
    assert m.match({"s": "z"}) == []
