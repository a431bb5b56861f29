"""Columns of CSV as the values of attributes: exact, and the same whatever their neighbours are."""

from __future__ import annotations

import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from earmark import EarmarkError, Matcher
from earmark.events.mappings import Reject
from earmark.keys.numbers import position_of
from earmark.tabular.csvfile import typed_column, typed_table
from earmark.tabular.source import source_of
from earmark.tabular.subscriptions import read_subscriptions

LARGE = 2**53 + 1


def column(*texts: str | None) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(texts, pa.string())])


def values(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.to_pylist()


def numbers(*texts: str | None) -> list[Any]:
    return values(typed_column(column(*texts), "number", "n"))


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["1", " 2 ", "", None, "  "], [1, 2, None, None, None]),
        ([str(LARGE), "-5"], [LARGE, -5]),
        ([str(LARGE), "2.5"], [LARGE, Decimal("2.5")]),
        ([str(LARGE), "1e3", "", None], [LARGE, 1000.0, None, None]),
        ([str(LARGE), "inf", "-Infinity"], [LARGE, math.inf, -math.inf]),
        (["18446744073709551615", "0"], [2**64 - 1, 0]),
        (["99999999999999999999", "-1"], [99999999999999999999, -1]),
        ([f"{LARGE}.0", "0.5"], [LARGE, Decimal("0.5")]),
        ([f"+{LARGE}", "+0.5"], [LARGE, Decimal("0.5")]),
        (["0.12345678901234567890123456789", str(LARGE)], [Decimal("0.12345678901234567890123456789"), LARGE]),
        (["1e3", "0.5", ".5", "5.", "007"], [1000.0, 0.5, 0.5, 5.0, 7.0]),
        (["1e300", "0.1"], [1e300, 0.1]),
        (["0.8444218515250481", "12345678901.123457"], [0.8444218515250481, 12345678901.123457]),
        ([], []),
        ([None, ""], [None, None]),
    ],
)  # fmt: skip
def test_numbers(texts: list[str | None], wanted: list[Any]) -> None:
    assert numbers(*texts) == wanted


def test_not_a_number_is_one() -> None:
    for others in ([], ["1"], ["2.5"], [str(LARGE)]):
        found = numbers("nan", *others)
        assert math.isnan(found[0])
        assert found[1:] == [Decimal(text) for text in others]


def test_ordinary_fractions_are_doubles() -> None:
    """The matcher takes a column of doubles at once, and decimals one by one."""
    assert typed_column(column("0.8444218515250481", "1e300", None), "number", "n").type == pa.float64()


@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize("neighbours", [[], ["1"], ["2.5"], [str(LARGE)], [str(LARGE), "2.5"]])
@pytest.mark.parametrize("text", ["0x10", "x", "1_0", "1D", "٣", "1,5", "true", "--1", "nan(x)"])
def test_no_numbers(kind: str, neighbours: list[str], text: str) -> None:
    article = "an" if kind == "integer" else "a"
    with pytest.raises(EarmarkError, match=f"expected {article} {kind} for 'n', got ") as caught:
        typed_column(column(*neighbours, text), kind, "n")
    assert caught.value.row == len(neighbours)
    unread: list[Reject] = []
    found = values(typed_column(column(*neighbours, text, *neighbours), kind, "n", unread))
    assert found == [*map(Decimal, neighbours), None, *map(Decimal, neighbours)]
    assert unread == [Reject(len(neighbours), "n", f"expected {article} {kind} for 'n', got {text!r}")]


TEXTS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(2**53 - 3, 2**53 + 3).map(str),
    st.floats().map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(lambda value: format(value, "f")),
    st.sampled_from(["", "nan", "inf", "-inf", "1e3", "1E-3"]),
)


@given(st.lists(TEXTS, max_size=8))
def test_a_number_is_the_same_beside_any_other(texts: list[str]) -> None:
    """Alone it is read exactly: as an integer, or as what a condition makes of it."""
    for text, value in zip(texts, numbers(*texts), strict=True):
        if not text:
            assert value is None
            continue
        alone = Decimal(text) if "e" not in text.lower() and "n" not in text.lower() else float(text)
        assert position_of(value) == position_of(alone)


@pytest.mark.parametrize("kind", ["integer", "float", "boolean", "decimal(9,2)", "date", "timestamp"])
def test_every_value_that_does_not_fit_is_found(kind: str) -> None:
    good = {
        "float": "2.5",
        "boolean": "true",
        "decimal(9,2)": "1.25",
        "date": "2024-2-9",
        "timestamp": "2024-02-29 12:00",
    }
    texts = [good.get(kind, "7")] * 1_000
    bad = [0, 499, 500, 999]
    for row in bad:
        texts[row] = f"bad {row}"
    unread: list[Reject] = []
    found = values(typed_column(column(*texts), kind, "n", unread))
    assert [row for row, value in enumerate(found) if value is None] == bad
    assert [one.event for one in unread] == bad
    with pytest.raises(EarmarkError) as caught:
        typed_column(column(*texts), kind, "n")
    assert caught.value.row == 0


def test_a_table_with_exact_numbers_is_rows() -> None:
    table = pa.table({"n": column(str(LARGE), "2.5", None), "t": column("a", "", "b"), "u": column("1", "2", "3")})
    rows = typed_table(table, {"n": "number", "t": "string", "u": None})
    assert rows == [
        {"n": LARGE, "t": "a", "u": "1"},
        {"n": Decimal("2.5"), "t": "", "u": "2"},
        {"n": None, "t": "b", "u": "3"},
    ]
    matcher = Matcher()
    matcher.add_many([(1, f"n = {LARGE}"), (2, f"n = {LARGE - 1}"), (3, "n = 2.5"), (4, "u IS NOT NULL")])
    found = matcher.match_many(rows).to_pylist()
    assert [(row["event"], row["subscription"]) for row in found] == [(0, 1), (0, 4), (1, 3), (1, 4), (2, 4)]


def test_bounds_of_subscriptions_are_exact(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text(f"id,n_lo,n_hi\n1,{LARGE},{10**30}\n2,0.5,1e3\n3,2,\n")
    matcher = Matcher()
    matcher.add_many(read_subscriptions(source_of(tmp_path / "s.csv"), {}).rows)
    for value, wanted in ((LARGE - 1, [3]), (LARGE, [1, 3]), (10**30, [1, 3]), (10**30 + 1, [3]), (1, [2])):
        assert matcher.match({"n": value}) == wanted
