"""Ids that are members of an enum changed when they were saved, and locked out plain ids."""

from __future__ import annotations

from enum import Enum, IntEnum
from pathlib import Path

from earmark import Matcher


class Colour(str, Enum):  # noqa: UP042 - as users write it
    RED = "red"


class Level(IntEnum):
    HIGH = 3


def test_they_are_plain(tmp_path: Path) -> None:
    for member, plain, other in ((Colour.RED, "red", "blue"), (Level.HIGH, 3, 4)):
        m = Matcher()
        m.add(member, "a > 3")
        m.add(other, "a > 3")
        m.save(tmp_path / "book")
        for one in (m, Matcher.load(tmp_path / "book")):
            assert one.ids() == [plain, other]
            assert [type(id) for id in one.match({"a": 4})] == [type(plain)] * 2
            assert member in one and plain in one
            one.remove(member)
            assert one.ids() == [other]
