"""The bitmap of a scope was made again at every search: as many words as the book has slots, several times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from earmark import Matcher
from earmark.engine import version
from earmark.engine.version import IndexedSegment

ACME, OTHER = {"tenant": "acme"}, {"tenant": "other"}


def filled(index: str = "blocks") -> Matcher:
    m = Matcher(index)
    tags = (ACME, OTHER, {})
    m.add_many([{"id": i, "condition": f"a > {i}", "tags": tags[i % 3]} for i in range(3_000)], progress=False)
    return m


def test_a_scope_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    m, made = filled(), []
    real = IndexedSegment._tagged
    monkeypatch.setattr(IndexedSegment, "_tagged", lambda self, scope: (made.append(scope), real(self, scope))[1])
    for _ in range(3):
        for scope, first in ((ACME, 0), (OTHER, 1)):
            assert m.match({"a": 9}, scope=scope) == list(range(first, 9, 3))
            assert [one.id for one in m.top_k({"a": 9}, 2, scope=scope)] == [first, first + 3]
            assert len(m.match_many([{"a": 9}] * 3, scope=scope)) == 9
    assert len(made) == 2
    m.remove(3)  # then others are living
    assert m.match({"a": 9}, scope=ACME) == [0, 6]
    assert len(made) == 3


def test_the_last_scopes_are_kept() -> None:
    m = filled("scan")
    (one,) = m._version.segments
    scopes: list[Any] = [(("tenant", name),) for name in "abcdef"]
    for scope in scopes:
        assert not one.eligible(scope).any()
    assert [known.scope for known in one._scoped] == scopes[: -version.SCOPES - 1 : -1]


@pytest.mark.parametrize("few", [True, False])
def test_a_scope_of_few_is_scanned(few: bool, tmp_path: Path) -> None:
    m = filled()
    m.add_many([{"id": 3_000 + i, "condition": "a > 1", "tags": {"tenant": "few"}} for i in range(5)], progress=False)
    m.compact()
    m.save(tmp_path / "book")
    for book in (m, Matcher.load(tmp_path / "book")):
        (one,) = book._version.segments
        eligible = one.eligible((("tenant", "few" if few else "acme"),))
        for given in (eligible, eligible.copy()):
            assert (one.searched_by(given) is one.index) is not few
