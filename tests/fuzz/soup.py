"""Texts that are nearly conditions: tokens of the language and near misses, in random and nearly right order."""

from __future__ import annotations

import re
from random import Random

from tests.oracle import generate, spellings
from tests.oracle.syntax import to_sql

NAMES = ["a", "a", "f", "b", "b", "c", "s", "d", "t", "m", "`a`", "`b`", "(a)", "(b)"]
NUMBERS = ["3", "0", "1.5", "-3", "- 3", "+3", "1e0", "3L", "3D", "3F", "2BD", "3S", "9223372036854775808", ".5", "5."]
STRINGS = ["'x'", "'a%'", "'it''s'", '"x"', "''", r"'a\%%'", "'2024-01-05'", "'/'", r"'a\\_%'"]
MOMENTS = [
    *("DATE '2024-01-05'", "TIMESTAMP '2024-01-01 08:00:00'", "DATE'2024-1-5'", "timestamp '2024-01-01'"),
    "CAST('NaN' AS DOUBLE)",
    "CAST('2024-01-05' AS DATE)",
]
CONSTANTS = ["TRUE", "FALSE", "NULL", "true", "(NULL)", "(3)", "('x')"]
LISTS = [
    "(3)",
    "(3, 4)",
    "('x', 'a%')",
    "(NULL, 3)",
    "(TRUE)",
    "()",
    "(3,)",
    "(a, 3)",
    "(DATE '2024-01-05')",
    "((3), -1)",
]
SIGNS = ["=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>", "!", "(", ")", "(", ")", ",", ".", "-", "+", "!<", "=>"]
WORDS = [
    *("AND", "AND", "OR", "OR", "NOT", "NOT", "IN", "NOT IN", "BETWEEN", "NOT BETWEEN", "LIKE", "NOT LIKE", "ESCAPE"),
    *("IS", "IS NOT", "IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
]
NEAR_MISSES = [
    *("ILIKE", "RLIKE", "DIV", "XOR", "ANY", "ALL", "EXISTS", "CASE", "END", "AS", "UNKNOWN", "SELECT", "INTERVAL"),
    *("COLLATE", "CAST", "DATE", "TIMESTAMP", "abs(3)", "--", "/*", "*/", ";", "||", "&&", "*", "%", "::", ":x", "?"),
    *("r'x'", "X'78'", "0x1F", "1_0", "1e400", "'x", "`a", "\u00a0", "é", "\x00", "\u2028", "current_date", "n0"),
]
POOLS = [NAMES, NAMES, NUMBERS, STRINGS, MOMENTS, CONSTANTS, LISTS, SIGNS, SIGNS, WORDS, WORDS, WORDS]
PIECES = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|[A-Za-z0-9_.]+|[<>=!]+|\s+|.", re.DOTALL)


def token(rng: Random, misses: float = 0.05) -> str:
    return rng.choice(NEAR_MISSES if rng.random() < misses else rng.choice(POOLS))


def predicate(rng: Random) -> str:
    """A name and what could follow it, of matching types as often as not."""
    name = rng.choice(NAMES)
    style = rng.random()
    literal = lambda: rng.choice(rng.choice((NUMBERS, STRINGS, MOMENTS, CONSTANTS)))
    if style < 0.5:
        sides = [name, rng.choice(SIGNS[:9]), literal()]
        return " ".join(sides if rng.random() < 0.8 else sides[::-1])
    if style < 0.6:
        return f"{name} {rng.choice(('', 'NOT '))}BETWEEN {literal()} AND {literal()}"
    if style < 0.7:
        return f"{name} {rng.choice(('', 'NOT '))}IN {rng.choice(LISTS)}"
    if style < 0.8:
        escape = rng.choice(("", "", " ESCAPE '/'"))
        return f"{name} {rng.choice(('', 'NOT '))}LIKE {rng.choice(STRINGS)}{escape}"
    return f"{name} {rng.choice(WORDS[-8:])} {rng.choice(('', '', literal()))}"


def soup(rng: Random) -> str:
    """A few tokens in any order."""
    return rng.choice((" ", " ", " ", "", "\n", "\t")).join(token(rng) for _ in range(rng.randint(1, 7)))


def broth(rng: Random) -> str:
    """Predicates joined as they may be, with tokens strewn in."""
    parts: list[str] = []
    for _ in range(rng.randint(1, 3)):
        parts.append(rng.choice(("", "", "", "NOT ", "! ", "(", "NOT (", "NOT NOT ")) + predicate(rng))
        parts.append(rng.choice(("", "", ")", ") IS TRUE", " IS NOT TRUE", " = TRUE")))
        parts.append(rng.choice((" AND ", " OR ")))
    text = "".join(parts[:-1])
    text += ")" * max(0, text.count("(") - text.count(")"))
    return mutated(rng, text) if rng.random() < 0.3 else text


def mutated(rng: Random, text: str) -> str:
    """A text with one to three of its tokens dropped, doubled, swapped or replaced."""
    pieces = PIECES.findall(text)
    for _ in range(rng.randint(1, 3)):
        if not pieces:
            break
        i, j = rng.randrange(len(pieces)), rng.randrange(len(pieces))
        match rng.randrange(4):
            case 0:
                del pieces[i]
            case 1:
                pieces.insert(j, pieces[i])
            case 2:
                pieces[i], pieces[j] = pieces[j], pieces[i]
            case _:
                pieces[i] = f" {token(rng, 0.2)} "
    return "".join(pieces)


def text(rng: Random) -> str:
    """Any of these, or a right condition with a few mutations."""
    style = rng.random()
    if style < 0.25:
        return soup(rng)
    if style < 0.6:
        return broth(rng)
    if style < 0.8:
        return mutated(rng, rng.choice(spellings.UNDERSTOOD + spellings.NOT_MISREAD))
    return mutated(rng, to_sql(generate.condition(rng, spellings.ATTRIBUTES, depth=2)))


# Words that SQL dialects read otherwise somewhere; all of them are good names of attributes.
KEYWORDS = """
add all alter always analyze and anti any array as asc at between binary boolean both by cache case cast char check
column comment commit copy count cross cube current current_date current_time current_timestamp current_user data date
database day dec decimal default delete desc describe distinct div double drop else end escape except exists explain
extract false fetch filter first float for format from full function global grant group grouping having hour if ignore
ilike in index inner insert int integer intersect interval into is join key kill last lateral left level like limit
local localtime location lock map match merge minute month names natural next no not null nulls offset on only option
options or order outer over overlay overwrite partition percent pivot position primary prior range rank read real
recursive references refresh regexp rename replace reset revoke right rlike rollback rows schema second select semi
session set show some sort start struct substring synchronize table temp temporary then time timestamp to trailing
transaction trim true truncate type unbounded union unique unknown unlock unset update use user using values varchar
view when where window with within year zone
""".split()
