"""Python before 3.11.5 matches possessive groups wrongly: `a IN (3,)` was taken for a list there.

Single characters (`[0-9]*+`) are matched rightly everywhere and keep hostile texts linear; groups must not be so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import earmark
from earmark.language import tokens


def test_no_possessive_groups_in_the_tokenizer() -> None:
    source = Path(tokens.__file__).read_text()
    assert not re.search(r"\)[?*+]\+", source)


@pytest.mark.parametrize("text", ["a IN (3,)", "(a) IN (3,)", "a IN (3Y, )", "a IN ('x', )", "a IN (NULL,)"])
def test_a_list_does_not_end_in_a_comma(text: str) -> None:
    m = earmark.Matcher()
    m.add("warm", "a IN (3)")
    with pytest.raises(earmark.SubscriptionError):
        m.add("it", text)
