"""How text is read: spellings where a parser and Spark may part ways, one a line.

For the attributes a integer, f float, b and c boolean, s string, d date, t timestamp, m decimal(9,2).
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

ATTRIBUTES = {
    "a": "integer",
    "f": "float",
    "b": "boolean",
    "c": "boolean",
    "s": "string",
    "d": "date",
    "t": "timestamp",
    "m": "decimal(9,2)",
}

# Part of the language: must be read, as Spark reads them.
UNDERSTOOD = r"""
a = 3
a == 3
a != 3
a <> 3
3 = a
3 < a
3 >= a
a<=>3
a <=> NULL
NULL <=> a
NOT a = 3
NOT a <=> 3
a=3
(a) = (3)
((a = 3))
`a` = 3
a = - 3
a = -3
a in(3,4)
a = 3L
a = 3D
a > 1.5D
a > 2.5
a > -2.5
a < .5
a > 1.
a >= 1e0
a = 3E0
a < 1e+1
a = 9223372036854775807
a = -9223372036854775808
a < -9223372036854775808
a >= 9223372036854775807
a = 9223372036854775808
a < 9223372036854775808
NOT a < 9223372036854775808
a > -9223372036854775809
a = 9007199254740993D
a > 9007199254740992D
a IN (9007199254740993, 1D)
a IN (9007199254740993, 1.5)
a = 3.0000000000000000000000001
a < 3.0000000000000000000000001
a = 2.9999999999999999995
a IN (3, 2.5)
a IN (1, 2.5, 1e0)
a IN (NULL)
a NOT IN (3, NULL)
NOT a IN (3)
a NOT IN (3)
a = NULL
NULL = a
NOT (a = NULL)
a BETWEEN NULL AND 2
a NOT BETWEEN NULL AND 2
a BETWEEN 1 AND NULL
a NOT BETWEEN 1 AND NULL
a BETWEEN 5 AND 1
NOT a BETWEEN 1 AND 2
a BETWEEN 1 AND 2 OR b
a BETWEEN 1 AND 2 AND b
NOT b AND c
NOT b OR c
b AND c OR b
b OR c AND b
a = 3 OR a = 4 AND a = 5
NOT a = 3 AND NOT a = 4
NOT NOT b
not(b)
b
NOT b
TRUE
FALSE
true AND b
b OR NULL
NULL AND b
NOT NULL
NOT (b AND NULL)
b = true
b != false
TRUE = b
b < true
b > false
b <=> NULL
b IN (true, NULL)
b BETWEEN false AND true
b IS TRUE
b IS NOT TRUE
b IS FALSE
b IS NOT FALSE
(a > 3) IS TRUE
(a > 3) IS NOT TRUE
NOT (a > 3) IS TRUE
NOT b IS TRUE
NOT b IS NULL
(b AND c) IS NOT FALSE
(a = NULL) IS NOT TRUE
a IS NULL
a IS NOT NULL
NOT a IS NULL
a IS NULL OR a > 3
f = 0
f < 0
f >= -0.0
f = 0.1
f = .5
f > 1e-400
f = 5e-324
f = 1e3
f > 1e308
f = 9007199254740993
f IN (0, 1.5)
f = 1.5D
m = 1.5
m = 1.505
m > 1.4999
m = 1.5D
m IN (1.5, 2)
m BETWEEN 1.5 AND 2
m < -1
m = 99999999999
s = 'it''s'
s = 'it\'s'
s = 'a\%b'
s = 'a\\%b'
s = 'a\_b'
s = 'a\\b'
s = 'a\nb'
s = ''
s = 'A'
s > 'a'
s < 'é'
s = '😀'
s >= '￿'
s IN ('x', 'ab')
s = 'a--b'
s LIKE 'a%'
s NOT LIKE 'a%'
NOT s LIKE 'a%'
s LIKE 'a\%%'
s LIKE 'a\\%%'
s LIKE 'a\\_%'
s LIKE 'a\\\\%'
s LIKE '%'
s NOT LIKE '%'
s LIKE 'it''s%'
s LIKE 'é%'
d = DATE '2024-01-05'
d = '2024-01-05'
d > DATE'2024-01-01'
d BETWEEN '2024-01-01' AND '2024-01-05'
d IN ('2024-01-05', DATE '2024-01-06')
t = TIMESTAMP '2024-01-01 08:00:00'
t > '2024-01-01 08:00:00'
t = TIMESTAMP '2024-01-01'
t >= TIMESTAMP '2024-01-01 09:00:00.000001'
t = TIMESTAMP '2024-01-01T10:00:00+02:00'
t = TIMESTAMP '2024-01-01 10:00:00Z'
""".strip().split("\n")

# Spark reads these; earmark may refuse them, but must not read them differently.
NOT_MISREAD = [
    "a = 3 -- c\n AND b",
    *r"""
!b
!a = 3
!!b
a !< 3
a !> 3
a = +3
a = -(3)
a = - -3
a = 3 -- c
a /* c */ = 3
a /* c /* d */ e */ = 3
a = 3 = true
a != 3 != true
a < 4 = true
b = c
a > 3 IS TRUE
a = 3 IS TRUE
(a > 3) IS UNKNOWN
(a > 3) IS NULL
b IS UNKNOWN
b = (a = 3)
a IS NOT DISTINCT FROM 3
a IS DISTINCT FROM 3
a = 3S
a = 3Y
a = 3F
a = 3BD
f = 0.1F
a > 2.5BD
a = 1e1BD
f = 1e-1BD
3 < 5
3 = 3
NULL IS NULL
NULL = NULL
NULL <=> NULL
1 = 2 OR b
a::decimal(38,0) = 3
a = 3::bigint
a = '3'
a IN ('3')
a = abs(3)
coalesce(b, c)
a % 2 = 1
CASE WHEN b THEN c END
b || c = 'truetrue'
if(b, c, b)
a IN (SELECT 3)
EXISTS (SELECT 1)
b = 'true'
b LIKE 't%'
a LIKE '3%'
f = '1.5'
m = '1.5'
a BETWEEN 1D AND 3.5
a IN (3Y, 4L)
a IN (11111111111111111111111111111111111111, 2.5)
a = 11111111111111111111111111111111111111
s = "x"
s = "it's"
s = "a""b"
s = r'a\b'
s = R'a\%b'
s = 'a' 'b'
s LIKE 'a' '%'
s = 'say "x"'
s = '\u00e9'
s = '\U0001F600'
s = '\x41'
s = '\101'
s = 'a\qb'
s = 'a\tb'
s = '\uD83D\uDE00'
s LIKE 'ab'
s LIKE ''
s LIKE 'a%%'
s LIKE 'a_%'
s LIKE '%b'
s LIKE 'a%b'
s ILIKE 'A%'
s LIKE 'x%' ESCAPE '/'
s LIKE 'a/%%' ESCAPE '/'
s LIKE 'a\\%' ESCAPE '/'
s LIKE 'a\%'
s LIKE r'a\%%'
s RLIKE 'a'
s REGEXP '^a'
s LIKE NULL
s LIKE ANY ('x%', 'a%')
s LIKE ALL ('x%')
s = 'x' COLLATE UTF8_LCASE
s = X'78'
d = DATE'2024-1-5'
d = DATE '2024'
d = DATE '2024-01'
d = DATE '2024-01-05T10:00'
d = ' 2024-01-05 '
d = '2024-01-05 10:00'
d > '2024'
d < DATE '10000-01-01'
d > DATE '0000-01-01'
d = DATE 'epoch'
d = date('2024-01-05')
d < TIMESTAMP '2024-01-05 00:00:01'
d = TIMESTAMP '2024-01-05 00:00:00'
d IN (TIMESTAMP '2024-01-05', DATE '2024-01-06')
t > DATE '2024-01-01'
t = DATE '2024-01-01'
t BETWEEN '2024-01-01' AND '2024-01-02'
t = TIMESTAMP '2024-01-01 8'
t > '2024'
t = TIMESTAMP '2024-01-01 10:00:00 Europe/Paris'
t = TIMESTAMP '2024-01-01 10:00:00 GMT+2'
t = TIMESTAMP '2024-01-01 10:00:00+2'
t = TIMESTAMP '2024-01-01 00:00:00 PST'
t = TIMESTAMP '2024-1-1 8:0:0'
t = TIMESTAMP '2024-01-01 08:00:00.0000009'
t = TIMESTAMP_NTZ '2024-01-01 08:00:00'
t = TIMESTAMP_LTZ '2024-01-01'
t < TIMESTAMP '10000-01-01 00:00:00'
d + INTERVAL '1' DAY = DATE '2024-01-06'
""".strip().split("\n"),
]

# Spark refuses these, so nobody can say what they mean.
REFUSED = r"""
a
a =
= 3
a = 3 b
a = 3; b = 4
a = 3 AND
AND b
a = 3)
(a = 3
a = 3 4
a 3
a IN ()
a IN (3,)
a IN 3
a BETWEEN 1
a BETWEEN 1 OR 2
a BETWEEN SYMMETRIC 5 AND 1
a LIKE
NULL
a IS TRUE
a IS 3
a IS NaN
!a
NOT a
1 < a < 4
a => 3
a =! 3
a ! = 3
a > = 3
b && c
a IS NULL IS NULL
a IN (3) IS TRUE
s LIKE 'x' IS TRUE
b = 1
b < 1
a = TRUE
a && b
a = 1e400
f < -1e400
f = 1.8e308
a = 9223372036854775808L
a = 300Y
a = 1.5L
a = 0x1F
a = 1_000
a = 111111111111111111111111111111111111111
a < 3.00000000000000000000000000000000000001
a = 3and b
a = 'x'
f = 'x'
s = 5
d > 5
t > 5
d = 'zzz'
d = ''
d = DATE '2024-02-30'
d = DATE '20240105'
t = TIMESTAMP '2024-01-01 24:00:00'
t = TIMESTAMP '2024-01-01 10:00:60'
f = DOUBLE '1.5'
a = INT '3'
s = 'x
s = 'it's'
s = 'x\'
s LIKE 'a\\b%'
s LIKE 'a\\'
s LIKE 'a%' ESCAPE '//'
s LIKE 'a%' ESCAPE '%'
"a" = 3
a = NaN
a = :x
a = ?
a = {x}
DROP TABLE x
SELECT 1
a = 3 /* c
""".strip().split("\n")


def rows_that_tell() -> list[dict[str, Any]]:
    """Rows that tell the readings apart."""
    numbers = [-(2**63), -3, 0, 1, 2, 3, 4, 5, 2**53, 2**53 + 1, 2**63 - 1]
    doubles = [-1.5, -0.0, 5e-324, 0.1, 0.5, 1.5, 5.0, 1e3, float("inf"), float("nan"), 2.0**53]
    strings = ["", "x", "it's", "its", "a%b", "a\\%b", "a_b", "a\\b", "ab", "a'b", "a\nb", "A", "\U0001f600", "a%", "a"]
    strings += ['say "x"', "é", "a\\", "a\tb", "a--b", "x y"]
    days = [date(2024, 1, 5), date(2024, 1, 1), date(2023, 12, 31), date(2024, 1, 6)]
    instants = [datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (0, 8, 9, 10)] + [datetime(2023, 12, 31, tzinfo=UTC)]
    cents = [Decimal(text) for text in ("1.49", "1.50", "1.51", "2.00", "-1.50", "0.00")]
    values: dict[str, list[Any]] = {"a": numbers, "f": doubles, "s": strings, "d": days, "t": instants, "m": cents}
    rows: list[dict[str, Any]] = [{}]
    rows += [{name: value} for name in values for value in values[name]]
    rows += [{"b": b, "c": c} for b in (True, False) for c in (True, False)]
    rows += [{"a": a, "b": b} for a in (1, 2, 3) for b in (True, False)]
    return rows
