"""`s > 'z'` was lost on relabelling when 'z' had the last key but one: its bound was taken for no bound."""

from __future__ import annotations

from dataclasses import replace

from earmark import Matcher
from earmark.engine.version import IndexedSegment
from earmark.keys.strings import StringKeys

LEAST, GREATEST = -(2**63), 2**63 - 1


def test_the_bound_moves_with_its_constant() -> None:
    m = Matcher()
    m.add("above z", "s > 'z'")
    version, whole = m._version, m._version.whole
    packed = StringKeys.from_items([b"", b"z"], [LEAST, GREATEST - 1])
    schema = version.schema.rekeyed((), {0: packed})
    lo = whole.arrays.lo + (GREATEST - 1 - version.schema.strings[0].of_constant(b"z"))
    moved = replace(whole, schema=schema, arrays=whole.arrays._replace(lo=lo))
    m._replace(version.with_schema(schema).with_segments([IndexedSegment.of(moved)]))
    assert m.match({"s": "zz"}) == ["above z"]
    m.add("no room", "s = 'zzz'")
    assert m._version.schema.generation != schema.generation
    assert m.match({"s": "zz"}) == ["above z"]
    m.compact()
    assert m.match({"s": "zz"}) == ["above z"]
    assert m.match({"s": "z"}) == []
