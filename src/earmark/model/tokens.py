"""From SQL text to tokens: every one is checked, and names and literals are taken out.

    text      age >= 22.5 AND city IN ('x', 'it''s')
    shape     n0 >= 900000000 AND n1 IN (800000001)     what the grammar sees: keywords, signs, stand-ins
    names     age, city
    slots     22.5 (a number), ('x', 'it''s') (a plain list)

A word is a keyword only where the language has one; everywhere else it is a name, whatever SQL dialects make of
it. So the grammar never sees a word or a literal of the user's. Length, tokens and nesting are bounded.

`split_units` finds names in backquotes, literals and plain lists without looking at the rest. **Invariant**: two
texts that are the same between their units, and whose units are of the same kinds, have the same shape. (Between
units no token can reach into the next unit: a number does not start right after a word or a number, and no sign or
word goes on with a quote.) That is what lets the parser keep templates by what stands between the units.

**Complexity**: O(length), also for hostile texts: no pattern backtracks, and an unclosed quote runs to the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from earmark.model.literals import date_value, named_double, negated, number_value, string_value, timestamp_value
from earmark.model.order import COMPARISONS, Misplaced, misplaced
from earmark.model.predicate import MAX_TEXT, shortened

MAX_NESTING = 40
MAX_TOKENS = 40_000  # a plain list counts once
FIRST_HOLE = 900_000_000
FIRST_LIST = 800_000_000

_WORD_END = r"(?![A-Za-z0-9_])"
_TAIL = rf"(?:[eE][+-]?[0-9]++)?(?:[bB][dD]|[lLsSyYdDfF])?{_WORD_END}"
_NUMBER = rf"(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++){_TAIL}"
_SINGLE = r"'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*"
_DOUBLE = r'"[^"\\]*+(?:(?:\\.|"")[^"\\]*+)*'
_STRING = rf"{_SINGLE}'|{_DOUBLE}\""
_NAME = r"`(?:[^`]++|``)+"
_SPACE = r"[ \t\r\n]"
_TYPED = rf"(?i:DATE|TIMESTAMP){_SPACE}*+"
_ITEM = rf"(?:-?{_SPACE}*+{_NUMBER}|(?:{_TYPED})?(?:{_STRING})|(?i:NULL|TRUE|FALSE){_WORD_END})"
_LIST = (
    rf"\((?:(?<=[iI][nN]\()|(?<=[iI][nN]{_SPACE}\())"
    rf"{_SPACE}*+{_ITEM}(?:{_SPACE}*+,{_SPACE}*+{_ITEM})*{_SPACE}*+\)"
)

_TOKEN = re.compile(
    rf"""(?P<space>{_SPACE}+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*+)
      | (?P<number>{_NUMBER})
      | (?P<string>{_STRING})
      | (?P<name>{_NAME}`)
      | (?P<list>{_LIST})
      | (?P<sign><=>|<=|>=|<>|!=|==|[=<>!(),.+]|-(?!-))
      | (?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
_UNIT = re.compile(
    rf"([0-9](?<![A-Za-z0-9_].)[0-9]*+(?:\.[0-9]*+)?{_TAIL}|\.(?<![A-Za-z0-9_].)[0-9]++{_TAIL}"
    rf"|{_STRING}|{_NAME}`|{_LIST})|['\"`].*+",
    re.DOTALL,
)
_LIST_ITEM = re.compile(rf"(-?){_SPACE}*+(?:({_NUMBER})|({_TYPED})?({_STRING})|([A-Za-z]++))", re.DOTALL)

_KEYWORDS = frozenset("AND OR NOT IN IS NULL TRUE FALSE BETWEEN LIKE".split())
_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}
_NO_FUNCTIONS = "functions are not part of a condition"
_ELSEWHERE = {
    "ILIKE": "ILIKE is not part of the language; LIKE with a plain prefix is",
    "RLIKE": "regular expressions are not part of the language; LIKE with a plain prefix is",
    "REGEXP": "regular expressions are not part of the language; LIKE with a plain prefix is",
    "SELECT": "a condition is what stands after WHERE: SELECT and subqueries are not part of it",
    "CASE": "CASE is not part of the language; a name that SQL reads otherwise stands in backquotes",
    "INTERVAL": "INTERVAL is not part of the language; a name that SQL reads otherwise stands in backquotes",
    "COLLATE": "COLLATE is not part of the language: strings compare by their UTF-8 bytes",
}


class Refused(Exception):
    """Why a text is not a condition, and the piece that shows it."""

    def __init__(self, reason: str, piece: str = "") -> None:
        super().__init__(reason)
        self.piece = piece


class Slot(NamedTuple):
    """A literal of the text: where it stood (without DATE or CAST around it), and its kind, one of KINDS."""

    start: int
    end: int
    kind: str


class Lexed(NamedTuple):
    """A text with its names and literals taken out; `ends` and `spans` lead from the shape back to the text."""

    text: str
    shape: str
    names: list[str]
    slots: list[Slot]
    ends: list[int]
    spans: list[tuple[int, int]]


class _Token(NamedTuple):
    """A token; `word` is what keywords and signs are compared with: in capitals, and nothing for other kinds."""

    kind: str
    text: str
    start: int
    word: str


# --- texts of a known shape ----------------------------------------------------------------------------------


def split_units(text: str) -> tuple[tuple[str, ...], list[str]]:
    """What stands between the units of a text (with its names in backquotes), and the literals."""
    parts = _UNIT.split(text)
    units = parts[1::2]
    if units and units[-1] is None:
        return (), []  # a quote is not closed: no known shape
    if "`" not in text:
        return tuple(parts[::2]), units
    between = (*parts[::2], *[unit if unit[0] == "`" else "" for unit in units])
    return between, [unit for unit in units if unit[0] != "`"]


def units_are_slots(lexed: Lexed) -> bool:
    """Whether `split_units` sees the literals and names in backquotes of this text as the tokens do."""
    units = [(m.start(), m.end()) for m in _UNIT.finditer(lexed.text)]
    slots = {(slot.start, slot.end) for slot in lexed.slots}
    quoted = {span for span in lexed.spans if lexed.text[span[0]] == "`"}
    return len(units) == len(slots | quoted) and set(units) == slots | quoted


def _list_values(token: str) -> tuple[Any, ...]:
    """The values of a plain list."""
    values: list[Any] = []
    for minus, number, type_, string, constant in _LIST_ITEM.findall(token):
        if string:
            values.append(KINDS[type_.strip().lower() or "string"].read(string))
        elif number:
            value = number_value(number, bool(minus))
            values.append(negated(value) if minus else value)
        else:
            values.append(_CONSTANTS[constant.upper()])
    return tuple(values)


class Kind(NamedTuple):
    """How literals of a kind begin, and how they are read; `read` may raise LiteralError."""

    openings: str
    read: Callable[[str], Any]


_DIGITS, _QUOTES = "0123456789.", "'\""
KINDS = {
    "string": Kind(_QUOTES, string_value),
    "list": Kind("(", _list_values),
    "number": Kind(_DIGITS, number_value),
    "minus": Kind(_DIGITS, partial(number_value, after_minus=True)),
    "date": Kind(_QUOTES, lambda token: date_value(string_value(token))),
    "timestamp": Kind(_QUOTES, lambda token: timestamp_value(string_value(token))),
    "double": Kind(_QUOTES, lambda token: named_double(string_value(token))),
}


# --- any text ------------------------------------------------------------------------------------------------


def lex(text: str) -> Lexed:
    """Check every token and take names and literals out; raises Refused."""
    if not isinstance(text, str):
        raise Refused("a condition is a text, or made of Predicates")
    if len(text) > MAX_TEXT:
        raise Refused(f"it is longer than {MAX_TEXT:,} characters")
    tokens = _tokens(text)
    if not tokens:
        raise Refused("it is empty; write TRUE for a condition that always holds")
    made = Lexed(text, "", [], [], [], [])
    pieces: list[str] = []
    kinds: list[str] = []
    i = offset = 0
    while i < len(tokens):
        first = i
        piece, kind, i = _piece(made, tokens, i)
        pieces.append(piece)
        kinds.append(kind)
        offset += len(piece)
        made.ends.append(offset)
        offset += 1
        made.spans.append((tokens[first].start, _end(tokens[i - 1])))
    if found := misplaced(kinds):
        raise _out_of_place(made, found)
    return made._replace(shape=" ".join(pieces))


def _out_of_place(made: Lexed, found: Misplaced) -> Refused:
    """The token that cannot stand where it does, with the one before it."""
    before, this = (
        made.text[slice(*made.spans[i])] if 0 <= i < len(made.spans) else "" for i in (found.at - 1, found.at)
    )
    if not this:
        return Refused(f"{found.reason}, after {shortened(before, 60)!r}")
    where = f"after {shortened(before, 60)!r}" if before else "at the beginning"
    return Refused(found.reason or f"this cannot stand {where}", this)


def _piece(made: Lexed, tokens: list[_Token], i: int) -> tuple[str, str, int]:
    """What stands for token i in the shape, of what kind it is, and the next token; a typed literal goes as one."""
    token, before = tokens[i], tokens[i - 1].word if i else ""
    number = str(FIRST_HOLE + len(made.slots))
    if token.kind == "number":
        made.slots.append(Slot(token.start, _end(token), "minus" if before == "-" else "number"))
        return number, "number", i + 1
    if token.kind == "string":
        made.slots.append(Slot(token.start, _end(token), "string"))
        return f"'{number}'", "string", i + 1
    if token.kind == "list":
        if i and tokens[i - 1].kind == "word" and before != "IN":
            raise Refused(_NO_FUNCTIONS, tokens[i - 1].text + "(")
        made.slots.append(Slot(token.start, _end(token), "list"))
        return f"({FIRST_LIST + len(made.slots) - 1})", "list", i + 1
    if token.kind == "sign":
        sign = _sign(tokens, i, before)
        return sign, "comparison" if sign in COMPARISONS else sign, i + 1
    if token.kind == "word" and before != ".":
        if found := _typed(tokens, i):
            literal, end, kind = found
            made.slots.append(Slot(literal.start, _end(literal), kind))
            return number, "typed", end
        if _is_keyword(tokens, i, before):
            return token.word, "constant" if token.word in _CONSTANTS else token.word, i + 1
    if i + 1 < len(tokens) and tokens[i + 1].text == "(":
        raise Refused(_NO_FUNCTIONS, token.text + "(")
    made.names.append(token.text if token.kind == "word" else token.text[1:-1].replace("``", "`"))
    return f"n{len(made.names) - 1}", "name", i + 1


def _typed(tokens: list[_Token], i: int) -> tuple[_Token, int, str] | None:
    """`DATE '…'`, `TIMESTAMP '…'` or `CAST('…' AS …)` at token i: its string, where it ends, and its kind."""
    word, following = tokens[i].word, tokens[i + 1 : i + 6]
    if word in ("DATE", "TIMESTAMP") and following and following[0].kind == "string":
        return following[0], i + 2, word.lower()
    if word == "CAST" and len(following) == 5 and following[1].kind == "string":
        type_ = following[3].word
        if [t.word for t in following] == ["(", "", "AS", type_, ")"] and type_ in ("DATE", "TIMESTAMP", "DOUBLE"):
            return following[1], i + 6, type_.lower()
    return None


def _is_keyword(tokens: list[_Token], i: int, before: str) -> bool:
    """Whether a word is one of the language here, and not a name."""
    word = tokens[i].word
    match word:
        case "ESCAPE":
            return i > 0 and tokens[i - 1].kind == "string"
        case "DISTINCT":
            return before == "IS" or (before == "NOT" and i > 1 and tokens[i - 2].word == "IS")
        case "FROM":
            return before == "DISTINCT" and i > 1 and tokens[i - 2].word in ("IS", "NOT")
    if word in _ELSEWHERE:
        raise Refused(_ELSEWHERE[word], tokens[i].text)
    return word in _KEYWORDS


def _sign(tokens: list[_Token], i: int, before: str) -> str:
    """A sign as the grammar takes it: `!` is NOT, and only where a condition begins."""
    sign = tokens[i].text
    if sign == "!":
        if before not in ("", "(", "AND", "OR", "NOT", "!") or (i and not before):
            raise Refused("'!' stands before a condition only", sign)
        return "NOT"
    return sign


def _tokens(text: str) -> list[_Token]:
    """All tokens; nesting counts open parentheses and the NOTs and signs before them."""
    tokens: list[_Token] = []
    nesting = run = 0
    opened: list[int] = []
    for found in _TOKEN.finditer(text):
        kind = str(found.lastgroup)
        if kind == "space":
            continue
        given = found.group()
        word = given.upper() if kind == "word" else given if kind == "sign" else ""
        token = _Token(kind, given, found.start(), word)
        if kind == "stray":
            raise Refused(_stray(text[token.start : token.start + 2]), text[token.start :])
        if len(tokens) == MAX_TOKENS:
            raise Refused(f"it has more than {MAX_TOKENS:,} words, signs and literals")
        tokens.append(token)
        if word == "(":
            opened.append(run + 1)
            nesting, run = nesting + 1, 0
        elif word in ("!", "-", "+", "NOT"):
            nesting, run = nesting + 1, run + 1
        else:
            nesting, run = nesting - run, 0
            if word == ")" and opened:
                nesting -= opened.pop()
        if nesting > MAX_NESTING:
            raise Refused(f"it nests deeper than {MAX_NESTING} levels", text[token.start :])
    return tokens


def _stray(start: str) -> str:
    """Why no token begins like this."""
    if start[0] in "'\"`":
        return "an empty name stands in backquotes" if start == "``" else "a quote is not closed"
    if start in ("--", "/*"):
        return "comments are not part of a condition"
    if start[0].isdigit() or start[0] == ".":
        return "it is not a number; a name that begins with a digit stands in backquotes"
    if start[0] > "\x7f":
        return "a name with other than ASCII letters, digits and _ stands in backquotes"
    if start[0] == ";":
        return "only one condition is allowed"
    if start == "&&":
        return "write AND instead"
    if start[0] in "*/%^~&|":
        return "calculations are not part of a condition"
    if start == "::":
        return "casts are not part of a condition"
    if start[0] in ":?{$@":
        return "parameters are not part of a condition: write the value itself"
    return "this character is not part of the language"


def _end(token: _Token) -> int:
    return token.start + len(token.text)
