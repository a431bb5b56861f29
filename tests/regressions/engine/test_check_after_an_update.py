"""An update keeps the sequence, so a dead slot shares it with the living one; `check` called that broken."""

from __future__ import annotations

import pytest

from earmark import Matcher
from earmark.index import names


@pytest.mark.parametrize("index", names())
def test_check_after_an_update(index: str) -> None:
    m = Matcher(index)
    m.add(1, "a > 0")
    m.update(1, "a > 1")
    m._version.check()
