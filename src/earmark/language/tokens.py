"""From SQL text to tokens: every one is checked, and names and literals are taken out.

    text      age >= 22.5 AND city IN ('x', 'it''s')
    shape     n0 >= 900000000 AND n1 IN (800000001)     what the grammar sees: keywords, signs, stand-ins
    names     age, city
    slots     22.5 (a number), ('x', 'it''s') (a plain list)

A word is a keyword only where the language has one; everywhere else it is a name, whatever SQL dialects make of
it. So the grammar never sees a word or a literal of the user's. Length, tokens and nesting are bounded.

`UNIT` finds names in backticks, literals and plain lists without looking at the rest. **Invariant**: two texts that
are the same between their units, and whose units are of the same kinds, have the same shape. (Between
units no token can reach into the next unit: a number does not start right after a word or a number, and no sign or
word goes on with a quote.) That is what lets the parser keep templates by what is between the units.

**Complexity**: O(length), also for hostile text: no pattern backtracks, and an unclosed quote runs to the end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from earmark.errors import SubscriptionError, shortened
from earmark.language.literals import (
    LiteralError,
    date_value,
    named_double,
    negated,
    number_value,
    string_value,
    timestamp_value,
)
from earmark.language.order import COMPARISONS, misplaced
from earmark.language.predicate import MAX_PARTS, MAX_TEXT
from earmark.language.refusals import FOREIGN_WORDS, NO_FUNCTIONS, NO_STATEMENTS, Refuse, advice, raised, refusal, stray

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
      | (?P<parameter>\?|:[A-Za-z_][A-Za-z0-9_]*+)
      | (?P<stray>.)""",
    re.VERBOSE | re.DOTALL,
)
UNIT = re.compile(  # one set of characters comes first, which `re` searches for at speed
    r"""([0-9.'"`(](?:"""
    rf"(?<=[0-9])(?<![A-Za-z0-9_].)[0-9]*+(?:\.[0-9]*+)?{_TAIL}|(?<=\.)(?<![A-Za-z0-9_].)[0-9]++{_TAIL}"
    rf"|(?<='){_SINGLE[1:]}'|(?<=\"){_DOUBLE[1:]}\"|(?<=`){_NAME[1:]}`|(?<=\(){_LIST[2:]}|(?<=['\"`]).*+))",
    re.DOTALL,
)
QUOTED = re.compile(rf"{_STRING}|{_NAME}`", re.DOTALL)
_LIST_ITEM = re.compile(rf"(-?){_SPACE}*+(?:({_NUMBER})|({_TYPED})?({_STRING})|([A-Za-z]++))", re.DOTALL)

_ONE_ITEM = re.compile(_ITEM, re.DOTALL)

_KEYWORDS = frozenset("AND OR NOT IN IS NULL TRUE FALSE BETWEEN LIKE".split())
_CONSTANTS = {"NULL": None, "TRUE": True, "FALSE": False}


class Slot(NamedTuple):
    """A literal of the text: where it stood (without DATE or CAST around it), and its kind, one of KINDS."""

    start: int
    end: int
    kind: str


class Lexed(NamedTuple):
    """A text with its names and literals taken out.

    `kinds`, `ends` and `spans` have one entry per token: its kind, where it ends in the shape, where it is in the
    text. `name_spans` has one per name.
    """

    text: str
    shape: str
    names: list[str]
    name_spans: list[tuple[int, int]]
    slots: list[Slot]
    kinds: list[str]
    ends: list[int]
    spans: list[tuple[int, int]]


class Token(NamedTuple):
    """A token; `word` is what keywords and signs are compared with: in capitals, and nothing for other kinds."""

    kind: str
    text: str
    start: int
    word: str


def units_are_slots(lexed: Lexed) -> bool:
    """Whether `split_units` sees the literals and names in backticks of this text as the tokens do."""
    units = [(m.start(), m.end()) for m in UNIT.finditer(lexed.text)]
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


def item_value(token: str) -> Any:
    """The value of one item of a plain list; LiteralError for anything else."""
    if not _ONE_ITEM.fullmatch(token):
        raise LiteralError("it is not an item of a list")
    return _list_values(token)[0]


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


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a literal of the text goes; `form` says how it is read there, `escape` which literal is its ESCAPE."""

    index: int
    form: str = "value"
    escape: int = -1


# --- any text ------------------------------------------------------------------------------------------------


def lex(text: str) -> Lexed:
    """Check every token and their order, and take names and literals out; raises SubscriptionError."""
    lexed = scan(text)
    check_order(lexed)
    return lexed


def scan(text: str, refuse: Refuse = raised) -> Lexed:
    """Check every token and take names and literals out; what is refused goes to `refuse`."""
    found = tokens_of(text, refuse)
    if not found:
        refuse(refusal("it is empty; write TRUE for a condition that always holds", "", 0, len(text)))
    elif _begins_with_where(found):
        refuse(_refused_token("leave out WHERE: a condition is what follows it", found[0]))
        del found[0]
    lexed = Lexed(text, "", [], [], [], [], [], [])
    pieces: list[str] = []
    i = offset = parts = 0
    while i < len(found):
        first = i
        piece, kind, i = _piece(lexed, found, i, refuse)
        pieces.append(piece)
        lexed.kinds.append(kind)
        offset += len(piece)
        lexed.ends.append(offset)
        offset += 1
        lexed.spans.append((found[first].start, _end(found[i - 1])))
        if kind == "name":
            parts = parts + 1 if lexed.kinds[-2:-1] == ["."] else 1
            lexed.name_spans.append(lexed.spans[-1])
            if parts == MAX_PARTS + 1:
                refuse(_refused_token(f"a name has at most {MAX_PARTS} parts with dots between them", found[first]))
    return lexed._replace(shape=" ".join(pieces))


def check_order(lexed: Lexed) -> None:
    """Raise SubscriptionError at the first token that cannot follow the one before it."""
    found = misplaced(lexed.kinds)
    if found is None:
        return
    kinds, texts = zip(*(_at(lexed, found.at + i) for i in (-1, 0, 1)), strict=True)
    before, this, _ = (shortened(text, 60) for text in texts)
    after = f" after {before!r}" if before else " at the beginning"
    if not this:
        end = len(lexed.text)
        reason = found.reason or f"expected {found.expected}{after}"
        raise refusal(f"{reason}, got the end of the condition", "", lexed.spans[-1][1], end)
    start, end = lexed.spans[found.at]
    adjacent = found.at > 0 and lexed.spans[found.at - 1][1] == start
    hint = advice(lexed.text, start, kinds, texts, adjacent)
    reason = hint or found.reason or f"expected {found.expected}{after}, got {this!r}"
    raise refusal(reason, lexed.text[start:end], start, end)


def _at(lexed: Lexed, i: int) -> tuple[str, str]:
    """The kind and text of token i, or nothing where there is none."""
    return (lexed.kinds[i], lexed.text[slice(*lexed.spans[i])]) if 0 <= i < len(lexed.spans) else ("", "")


def _begins_with_where(tokens: list[Token]) -> bool:
    """Whether a text begins with the keyword WHERE; as a name it would be followed by an operator."""
    if tokens[0].word != "WHERE" or len(tokens) == 1:
        return False
    second, third = tokens[1], tokens[2].word if len(tokens) > 2 else ""
    if second.word == "NOT":
        return third not in ("IN", "BETWEEN", "LIKE")
    if second.kind == "sign":
        return second.word in ("(", "!")
    return second.word not in ("IN", "IS", "BETWEEN", "LIKE", "AND", "OR")


def _refused_token(reason: str, token: Token, more: str = "") -> SubscriptionError:
    return refusal(reason, token.text + more, token.start, _end(token))


def _piece(made: Lexed, tokens: list[Token], i: int, refuse: Refuse) -> tuple[str, str, int]:
    """What replaces token i in the shape, of what kind it is, and the next token; a typed literal goes as one."""
    token, before = tokens[i], tokens[i - 1].word if i else ""
    if token.kind == "parameter":
        example = "[…]" if token.text == "?" else f"{{{token.text[1:]!r}: …}}"
        refuse(_refused_token(f"the parameter {token.text} has no value: expected params={example}", token))
        return "?", "parameter", i + 1
    number = str(FIRST_HOLE + len(made.slots))
    if token.kind == "number":
        made.slots.append(Slot(token.start, _end(token), "minus" if before == "-" else "number"))
        return number, "number", i + 1
    if token.kind == "string":
        made.slots.append(Slot(token.start, _end(token), "string"))
        return f"'{number}'", "string", i + 1
    if token.kind == "list":
        if i and tokens[i - 1].kind == "word" and before != "IN":
            refuse(_refused_token(NO_FUNCTIONS, tokens[i - 1], "("))
        made.slots.append(Slot(token.start, _end(token), "list"))
        return f"({FIRST_LIST + len(made.slots) - 1})", "list", i + 1
    if token.kind == "sign":
        if token.text == "!":
            if before not in ("", "(", "AND", "OR", "NOT", "!") or (i and not before):
                refuse(_refused_token("'!' goes before a condition only", token))
            return "NOT", "NOT", i + 1
        return token.text, "comparison" if token.text in COMPARISONS else token.text, i + 1
    if token.kind == "word" and before != ".":
        if found := _typed(tokens, i):
            literal, end, kind = found
            made.slots.append(Slot(literal.start, _end(literal), kind))
            return number, "typed", end
        if _is_keyword(tokens, i, before, refuse):
            return token.word, "constant" if token.word in _CONSTANTS else token.word, i + 1
    if i + 1 < len(tokens) and tokens[i + 1].text == "(":
        refuse(_refused_token(NO_FUNCTIONS, token, "("))
    made.names.append(token.text if token.kind == "word" else token.text[1:-1].replace("``", "`"))
    return f"n{len(made.names) - 1}", "name", i + 1


def _typed(tokens: list[Token], i: int) -> tuple[Token, int, str] | None:
    """`DATE '…'`, `TIMESTAMP '…'` or `CAST('…' AS …)` at token i: its string, where it ends, and its kind."""
    word, following = tokens[i].word, tokens[i + 1 : i + 6]
    if word in ("DATE", "TIMESTAMP") and following and following[0].kind == "string":
        return following[0], i + 2, word.lower()
    if word == "CAST" and len(following) == 5 and following[1].kind == "string":
        type_ = following[3].word
        if [t.word for t in following] == ["(", "", "AS", type_, ")"] and type_ in ("DATE", "TIMESTAMP", "DOUBLE"):
            return following[1], i + 6, type_.lower()
    return None


def _is_keyword(tokens: list[Token], i: int, before: str, refuse: Refuse) -> bool:
    """Whether a word is one of the language here, and not a name."""
    word = tokens[i].word
    match word:
        case "ESCAPE":
            return i > 0 and tokens[i - 1].kind == "string"
        case "DISTINCT":
            return before == "IS" or (before == "NOT" and i > 1 and tokens[i - 2].word == "IS")
        case "FROM":
            return before == "DISTINCT" and i > 1 and tokens[i - 2].word in ("IS", "NOT")
    if word in FOREIGN_WORDS:
        refuse(_refused_token(FOREIGN_WORDS[word], tokens[i]))
    return word in _KEYWORDS


def tokens_of(text: str, refuse: Refuse = raised) -> list[Token]:
    """All tokens, checked for size; what no token begins with goes to `refuse`, and is left out."""
    if not isinstance(text, str):
        raise SubscriptionError(f"expected a condition as a string or as Predicates, got {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise SubscriptionError(f"it is longer than {MAX_TEXT:,} characters")
    tokens: list[Token] = []
    depth = _Depth()
    past = 0
    for match in _TOKEN.finditer(text):
        kind, start = str(match.lastgroup), match.start()
        if kind == "space" or start < past:
            continue
        if kind == "stray":
            problem = stray(text, start)
            refuse(problem)
            past = problem.end or 0
            continue
        given = match.group()
        word = given.upper() if kind == "word" else given if kind == "sign" else ""
        if len(tokens) == MAX_TOKENS:
            raise refusal(f"it has more than {MAX_TOKENS:,} words, signs and literals", "", start, len(text))
        token = Token(kind, given, start, word)
        if word == "SELECT" and not tokens:
            raise _refused_token(NO_STATEMENTS, token)
        tokens.append(token)
        if depth.after(word) > MAX_NESTING:
            raise refusal(f"it nests deeper than {MAX_NESTING} levels", text[start:], start, len(text))
    return tokens


class _Depth:
    """How deep a text nests: open parentheses, and the NOTs and signs before them."""

    __slots__ = ("_nesting", "_opened", "_run")

    def __init__(self) -> None:
        self._nesting = self._run = 0
        self._opened: list[int] = []

    def after(self, word: str) -> int:
        """The depth after one more token."""
        if word == "(":
            self._opened.append(self._run + 1)
            self._nesting, self._run = self._nesting + 1, 0
        elif word in ("!", "-", "+", "NOT"):
            self._nesting, self._run = self._nesting + 1, self._run + 1
        else:
            self._nesting, self._run = self._nesting - self._run, 0
            if word == ")" and self._opened:
                self._nesting -= self._opened.pop()
        return self._nesting


def _end(token: Token) -> int:
    return token.start + len(token.text)
