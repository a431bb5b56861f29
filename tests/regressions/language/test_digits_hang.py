"""A long run of digits with a letter behind it took quadratic time in the tokenizer: a mebibyte never ended."""

from __future__ import annotations

import time

import pytest

from earmark import SubscriptionError, parse


@pytest.mark.parametrize("sql", ["a = " + "1" * 1_000_000 + "x", "a = ." + "1" * 1_000_000 + "_"])
def test_it_ends(sql: str) -> None:
    start = time.process_time()
    with pytest.raises(SubscriptionError, match="not a number"):
        parse(sql)
    assert time.process_time() - start < 5
