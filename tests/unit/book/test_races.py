"""What another process does between two steps of ours: a file becomes a link, a version comes first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from earmark import Matcher, TableError
from earmark.book.folder import newest_or_none
from earmark.book.publishing import Conflict, building
from earmark.book.segments import read_packed, write_packed


def test_a_file_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    write_packed(tmp_path / "elsewhere", "numbers", {}, {"n": np.arange(3)})
    assert read_packed(tmp_path / "elsewhere", "numbers").arrays["n"].tolist() == [0, 1, 2]
    (tmp_path / "here").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TableError, match="lacks its file here"):
        read_packed(tmp_path / "here", "numbers")


def test_whoever_commits_second_is_told_so(tmp_path: Path) -> None:
    m, book = Matcher(), tmp_path / "book"
    m.add(1, "a > 3")
    m.save(book)
    before = newest_or_none(book)
    with building(book, before) as site:
        m.add(2, "a > 4")
        m.save(book)
        with pytest.raises(Conflict, match=r"was published while this one, begun on version \d+, was being made"):
            site.commit({"kind": "full"})
    assert newest_or_none(book) == before + 1
    assert Matcher.load(book).ids() == [1, 2]
