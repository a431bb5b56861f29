"""Literals by Spark's rules."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from earmark.language.literals import (
    LiteralError,
    date_value,
    like_prefix,
    named_double,
    number_value,
    plain_pattern,
    string_value,
    timestamp_value,
)


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("'x'", "x"),
        ("''", ""),
        ("'it''s'", "it's"),
        ("''''", "'"),
        (r"'it\'s'", "it's"),
        (r"'\'''", "''"),
        ('"a""b"', 'a"b'),
        ('"it\'s"', "it's"),
        (r"'a\nb\t\0\\\Z\b\r'", "a\nb\t\0\\\x1a\b\r"),
        (r"'\%\_\q'", r"\%\_q"),
        (r"'\101\x41'", "Ax41"),
        (r"'\u00e9\U0001F600'", "é\U0001f600"),
        (r"'\uD83D\uDE00'", "\U0001f600"),
        (r"'\\u0041'", r"\u0041"),
        ("'a\nb'", "a\nb"),
    ],
)
def test_strings(token: str, value: str) -> None:
    assert string_value(token) == value


@pytest.mark.parametrize("token", [r"'\uD83D'", r"'\U00110000'", "'\ud800'", r"'\uDE00\uD83D'"])
def test_refused_strings(token: str) -> None:
    with pytest.raises(LiteralError):
        string_value(token)


@pytest.mark.parametrize(
    ("token", "value"),
    [
        ("7", 7),
        ("007", 7),
        ("9223372036854775808", 2**63),
        ("9" * 38, 10**38 - 1),
        ("0" * 900 + "5", 5),
        ("7L", 7),
        ("0" * 50 + "7l", 7),
        ("127y", 127),
        ("22.5", Decimal("22.5")),
        ("5.", Decimal("5")),
        (".50", Decimal("0.50")),
        ("5bd", Decimal("5")),
        ("1e3BD", Decimal("1e3")),
        ("1e3", 1000.0),
        ("1e-400", 0.0),
        ("2D", 2.0),
        ("0.1f", 0.10000000149011612),
    ],
)
def test_numbers(token: str, value: Any) -> None:
    found = number_value(token)
    assert (found, type(found)) == (value, type(value))
    if isinstance(value, Decimal):
        assert found.as_tuple() == Decimal(value).as_tuple()


def test_a_minus_makes_room_for_one_more() -> None:
    assert number_value("9223372036854775808L", after_minus=True) == 2**63
    assert number_value("128Y", after_minus=True) == 128


@pytest.mark.parametrize(
    "token",
    [
        *("9223372036854775808L", "0" * 50 + "9223372036854775808L", "128Y", "32768S", "1.5L", "1e3L", "1" * 39),
        *(
            "1e400",
            "1e39F",
            "1e400D",
            "0." + "1" * 39,
            "1e39BD",
            "1e-39BD",
            "1e999999999999BD",
            "1" * 1001,
            "1e" + "9" * 999,
        ),
    ],
)
def test_refused_numbers(token: str) -> None:
    with pytest.raises(LiteralError):
        number_value(token)


def test_named_doubles() -> None:
    assert math.isnan(named_double(" NaN "))
    assert named_double("-Infinity") == -math.inf
    assert named_double("+inf") == math.inf
    for text in ("1.5", "", "nan()", "\u00a0NaN", "∞"):
        with pytest.raises(LiteralError):
            named_double(text)


def test_dates() -> None:
    assert date_value(" 2024-2-9\t") == date(2024, 2, 9)
    for text in (
        "2024",
        "2024-02",
        "2024-02-30",
        "20240229",
        "0000-01-01",
        "10000-01-01",
        "２０２４-01-05",
        "\u00a02024-01-05",
        "",
    ):
        with pytest.raises(LiteralError):
            date_value(text)


def test_timestamps() -> None:
    assert timestamp_value("2024-02-29") == datetime(2024, 2, 29)
    assert timestamp_value("2024-2-9 8:5") == datetime(2024, 2, 9, 8, 5)
    assert timestamp_value("2024-02-29T12:30:00.5") == datetime(2024, 2, 29, 12, 30, 0, 500_000)
    east = timezone(timedelta(hours=2))
    for text in ("2024-02-29 12:30:00+02:00", "2024-02-29 12:30:00 +02:00", "2024-02-29 11:30:00 Europe/Paris"):
        assert timestamp_value(text) == datetime(2024, 2, 29, 12, 30, tzinfo=east)
    assert timestamp_value("2024-02-29 12:30:00Z").tzinfo is not None
    refused = ["2024-02-30 00:00:00", "2024-01-01 24:00:00", "2024-01-01 10:00:60", "2024-01-01 10:00:00.1234567", "x"]
    refused += [
        "0001-01-01 00:00:00+01:00",
        "2024-01-01 10:00:00+19:00",
        "2024-01-01 10:00:00 No/Where",
        "2024-01-01 8",
    ]
    for text in refused:
        with pytest.raises(LiteralError):
            timestamp_value(text)


@pytest.mark.parametrize(
    ("pattern", "prefix", "open_ended"),
    [
        ("ab%", "ab", True),
        ("ab", "ab", False),
        ("", "", False),
        ("%", "", True),
        ("a%%%", "a", True),
        (r"a\%%", "a%", True),
        (r"a\_\\", "a_\\", False),
    ],
)
def test_patterns(pattern: str, prefix: str, open_ended: bool) -> None:
    assert like_prefix(pattern) == (prefix, open_ended)
    assert like_prefix(plain_pattern(pattern.replace("\\", "/"), "/")) == (prefix.replace("\\", "/"), open_ended)


@pytest.mark.parametrize("pattern", ["a%b", "a_", "_", "%a", "a\\", r"a\b", "%%a"])
def test_refused_patterns(pattern: str) -> None:
    with pytest.raises(LiteralError):
        like_prefix(pattern)


@pytest.mark.parametrize("escape", ["", "//", "%", "_", "\U0001f600"])
def test_refused_escapes(escape: str) -> None:
    with pytest.raises(LiteralError):
        plain_pattern("a%", escape)
