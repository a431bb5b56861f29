"""What value does a literal of SQL text have? Spark's rules, or an error that says what would be right.

Time zones are found by name, UTC also where the machine has no zone data.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from struct import error as struct_error
from struct import pack, unpack
from typing import TypeAlias

from earmark.errors import EarmarkError

Value: TypeAlias = int | float | Decimal | bool | str | date | datetime


class LiteralError(Exception):
    """The reason why a literal is refused; the reader of the literal knows where it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([01][0-7]{2})|(.))", re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_INTEGER_RANGE = {"L": 63, "S": 15, "Y": 7}
_MAX_DIGITS = 38
_MAX_NUMBER = 1000  # characters
_INFINITIES = dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf")
_NAMED_DOUBLES = {"nan": "nan", **_INFINITIES, "-inf": "-inf", "-infinity": "-inf"}
_BLANKS = "".join(map(chr, range(33))) + "\x7f"  # what Spark trims from dates, timestamps and doubles
_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d{2})\Z")
_DAY = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_DATE = re.compile(rf"{_DAY}\Z", re.ASCII)
_TIMESTAMP = re.compile(
    rf"{_DAY}(?:[ T](\d{{1,2}}):(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d{{1,6}}))?)?"
    r" *(Z|UTC|[+-]\d{2}:\d{2}|[A-Za-z]+/[\w/+-]+)?)?\Z",
    re.ASCII,
)


def string_value(token: str) -> str:
    """The text of a quoted token: doubled quotes and Spark's backslash escapes.

    >>> string_value("'it''s'"), string_value(r"'a\\tb'")
    ("it's", 'a\\tb')
    """
    quote, body = token[0], token[1:-1]
    if quote in body:
        body = re.sub(rf"(\\.)|{quote}{quote}", lambda m: m[1] or quote, body, flags=re.DOTALL)
    if "\\" in body:
        body = _ESCAPE.sub(_unescape, body)
        if "\\u" in token:  # two escapes can make one character beyond U+FFFF
            body = _SURROGATES.sub(lambda m: m[0].encode("utf-16", "surrogatepass").decode("utf-16"), body)
    if not body.isascii():
        try:
            body.encode()
        except UnicodeEncodeError:
            raise LiteralError("it holds a lone surrogate, which UTF-8 cannot carry") from None
    return body


def _unescape(found: re.Match[str]) -> str:
    point = found[1] or found[2]
    if point:
        if int(point, 16) > 0x10FFFF:
            raise LiteralError(f"\\U{point} is beyond the last Unicode character")
        return chr(int(point, 16))
    if found[3]:
        return chr(int(found[3], 8))
    return _ESCAPED.get(found[4], found[4])


def number_value(token: str, after_minus: bool = False) -> int | float | Decimal:
    """The value of a number token: integer, decimal (`22.5`), or double (`1e3`, `2D`).

    A minus before it is applied elsewhere; it is passed here because only then is `2^63 L` allowed.

    >>> number_value("22.5"), number_value("1e3"), number_value("7L")
    (Decimal('22.5'), 1000.0, 7)
    """
    if len(token) <= 18 and token.isdigit():
        return int(token)
    if len(token) > _MAX_NUMBER:
        raise LiteralError(f"it is a number of more than {_MAX_NUMBER:,} characters")
    body, suffix = _split_suffix(token.upper())
    if suffix in _INTEGER_RANGE:
        if not body.isdigit() or int(body) >= (1 << _INTEGER_RANGE[suffix]) + after_minus:
            raise LiteralError(f"the suffix {suffix} takes an integer of {_INTEGER_RANGE[suffix] + 1} bits")
        return int(body)
    if suffix in ("D", "F") or (not suffix and "E" in body):
        return _double(body, suffix)
    if not suffix and body.isdigit():
        _check_size(len(body.lstrip("0")))
        return int(body)
    if abs(int(body.partition("E")[2] or 0)) > _MAX_NUMBER:
        _check_size(_MAX_DIGITS + 1)
    value = Decimal(body)
    _check_size(decimal_size(value)[0])
    return value


def _split_suffix(token: str) -> tuple[str, str]:
    if token.endswith("BD"):
        return token[:-2], "BD"
    return (token[:-1], token[-1]) if token[-1] in "LSYDF" else (token, "")


def _check_size(digits: int) -> None:
    if digits > _MAX_DIGITS:
        raise LiteralError(f"it has more than {_MAX_DIGITS} digits")


def _double(body: str, suffix: str) -> float:
    value = float(body)
    if suffix == "F":
        try:
            value = unpack("<f", pack("<f", value))[0]
        except (OverflowError, struct_error):
            value = float("inf")
    if value in (float("inf"), float("-inf")):
        raise LiteralError(f"it is beyond the range of a {'float' if suffix == 'F' else 'double'}")
    return value


def named_double(text: str) -> float:
    """`CAST('NaN' AS DOUBLE)` and the infinities, which have no literal of their own."""
    name = _NAMED_DOUBLES.get(text.strip(_BLANKS).lower())
    if name is None:
        raise LiteralError("only 'NaN', 'Infinity' and '-Infinity' may be cast to DOUBLE")
    return float(name)


def date_value(text: str) -> date:
    """A date such as 2024-02-29."""
    found = _DATE.match(text.strip(_BLANKS))
    try:
        if found:
            return date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError:
        pass
    raise LiteralError(f"{text[:60]!r} is not a date; write it as '2024-02-29'")


def timestamp_value(text: str) -> datetime:
    """A timestamp such as 2024-02-29 12:30:00, with or without a zone."""
    found = _TIMESTAMP.match(text.strip(_BLANKS))
    try:
        if found:
            year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
            micro = int((found[7] or "").ljust(6, "0"))
            zone: tzinfo | None = zone_of(found[8]) if found[8] else None
            value = datetime(year, month, day, hour, minute, second, micro, zone)
            if zone is not None:
                value.astimezone(zone_of("UTC"))  # year 1 and 9999 may leave the calendar
            return value
    except (ValueError, OverflowError, EarmarkError):
        pass
    raise LiteralError(f"{text[:60]!r} is not a timestamp; write it as '2024-02-29 12:30:00' or '2024-02-29T12:30:00Z'")


def zone_of(name: str) -> tzinfo:
    """The zone called `name`: 'UTC', 'Z', an offset such as '+02:00', or a region such as 'Europe/Paris'."""
    if not isinstance(name, str):
        raise EarmarkError(f"expected the name of a time zone, such as 'Europe/Paris', got {name!r}")
    return _zone_of(name)


@lru_cache(maxsize=256)
def _zone_of(name: str) -> tzinfo:
    if name in ("UTC", "Z"):
        return timezone.utc  # noqa: UP017 - one spelling for all supported versions
    if found := _OFFSET.match(name):
        hours, minutes = int(found[2]), int(found[3])
        if (hours < 18 and minutes < 60) or (hours, minutes) == (18, 0):
            offset = timedelta(hours=hours, minutes=minutes)
            return timezone(offset if found[1] == "+" else -offset)
    from zoneinfo import ZoneInfo

    try:
        if re.fullmatch(r"[A-Za-z]+(/[A-Za-z0-9_+-]+){1,2}", name):
            return ZoneInfo(name)
    except (KeyError, OSError, ValueError):
        pass
    raise EarmarkError(f"{name!r} is not a time zone known here; give 'UTC', '+02:00' or a region like 'Europe/Paris'")


def negated(value: object) -> Value:
    """A number with a minus before it."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise LiteralError("only a number can have a minus sign")
    return value.copy_negate() if isinstance(value, Decimal) else -value


def cast_text(kind: str, text: str) -> date | datetime | None:
    """A string literal compared with a declared date or timestamp."""
    if kind == "date":
        return date_value(text)
    return timestamp_value(text) if kind == "timestamp" else None


def like_prefix(pattern: str, escape: str = "\\") -> tuple[str, bool]:
    """The text before a single trailing `%`, and whether there was one; other wildcards are refused.

    >>> like_prefix("ab%"), like_prefix("100\\\\%")
    (('ab', True), ('100%', False))
    """
    prefix: list[str] = []
    i = 0
    while i < len(pattern):
        char = pattern[i]
        if char == escape:
            if i + 1 == len(pattern) or pattern[i + 1] not in ("%", "_", escape):
                raise LiteralError(
                    f"in the pattern {pattern[:60]!r} the escape {escape!r} must come before %, _ or itself"
                )
            prefix.append(pattern[i + 1])
            i += 2
        elif char in "%_":
            if char == "%" and not pattern[i:].strip("%"):
                return "".join(prefix), True
            raise LiteralError(f"the pattern {pattern[:60]!r} is not a plain prefix: write it as 'prefix%'")
        else:
            prefix.append(char)
            i += 1
    return "".join(prefix), False


def plain_pattern(pattern: str, escape: str) -> str:
    """The same LIKE pattern with the default escape."""
    if len(escape) != 1 or escape > "\uffff" or escape in "%_":
        raise LiteralError(f"ESCAPE takes one character, neither % nor _, got {escape[:20]!r}")
    prefix, open_ended = like_prefix(pattern, escape)
    return re.sub(r"([\\%_])", r"\\\1", prefix) + ("%" if open_ended else "")


def decimal_size(value: Decimal | int) -> tuple[int, int]:
    """Precision and scale of a literal as Spark counts them."""
    if isinstance(value, int):
        return len(str(abs(value))), 0
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "literals are finite"
    return max(len(digits) + max(exponent, 0), -exponent), max(-exponent, 0)
