"""Before Spark 4.1, a SQL function whose event had a struct for an attribute failed with a KeyError."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from earmark import EventError
from earmark.events.mappings import Interval
from earmark.spark.older import _values


def test_a_sentence() -> None:
    names = {"a": "a"}
    assert dict(_values(Row(a=Row(lo=1, hi=2)), "", names, False, set())) == {"a": Interval(1, 2)}
    with pytest.raises(EventError, match="attribute 'a': expected a struct with the fields lo and hi"):
        dict(_values(Row(a=Row(least=1)), "", names, False, set()))
