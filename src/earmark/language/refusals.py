"""Why a text is not a condition: the reason, its place in the text, and what to write instead.

The tokenizer and the grammar say *where* they stopped; this module says *why*, in terms of what people write who come
from other languages: `WHERE a > 3`, `a =~ 'x'`, `first-name = 'x'`, quotes that a word processor has bent.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from earmark.errors import SubscriptionError

NO_FUNCTIONS = "functions are not part of a condition: compare the attribute itself with a literal"
NO_CALCULATIONS = "calculations are not part of a condition: compare the attribute itself with a literal"
NO_STATEMENTS = "leave out everything up to WHERE: a condition is what follows it"
NO_PATTERNS = "regular expressions are not part of the language: use LIKE with a prefix, as in LIKE 'prefix%'"
_NOT_HERE = "{} is not part of the language; if it is a name, write it in backticks"
FOREIGN_WORDS = {
    "ILIKE": "ILIKE is not part of the language: use LIKE with a prefix, as in LIKE 'prefix%'",
    "RLIKE": NO_PATTERNS,
    "REGEXP": NO_PATTERNS,
    "SELECT": "SELECT and subqueries are not part of a condition, which is what follows WHERE",
    "CASE": _NOT_HERE.format("CASE"),
    "INTERVAL": _NOT_HERE.format("INTERVAL"),
    "COLLATE": "COLLATE is not part of the language: strings compare by their UTF-8 bytes",
}
_CURLY_QUOTES = "‘’‚‛“”„‟«»‹›′″´"
_CURLY_STRING = re.compile(rf"[{_CURLY_QUOTES}][^{_CURLY_QUOTES}\n]*+[{_CURLY_QUOTES}]")
_LOOKALIKES = {
    **{"≥": ">=", "≤": "<=", "≠": "!=", "−": "-", "–": "-", "—": "-", "＝": "=", "（": "(", "）": ")", "，": ","},
    **dict.fromkeys("\u00a0\u2007\u2009\u202f\u3000\ufeff\u200b", "a plain space"),
}
_REVERSED = {("=", ">"): ">=", ("=", "<"): "<=", ("=", "!"): "!=", (">", "<"): "!="}
_DASHED = re.compile(r"[A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)+")


Refuse: TypeAlias = Callable[[SubscriptionError], None]


def raised(problem: SubscriptionError) -> None:
    """Stop at the first problem; to collect them all, pass another function in its place."""
    raise problem


def refusal(reason: str, piece: str, start: int | None, end: int | None) -> SubscriptionError:
    """Why a text is not a condition, the piece that shows it, and its place in the text where that is known."""
    return SubscriptionError(reason, text=piece or None, start=start, end=end)


# --- characters that no token begins with -----------------------------------------------------------------------


def stray(text: str, at: int) -> SubscriptionError:
    """The refusal of the character at `at`, with which no token begins."""
    reason, length = _stray(text, at)
    return refusal(reason, text[at:], at, len(text) if length is None else at + length)


def _stray(text: str, at: int) -> tuple[str, int | None]:
    """Why no token begins here, and how many characters that concerns; None for all that follow."""
    char, pair = text[at], text[at : at + 2]
    if char in "'\"`":
        return _open_quote(text, at)
    if pair in ("--", "/*"):
        return "comments are not part of a condition: leave them out", None
    if char.isdigit() or char == ".":
        length = re.compile(r"[\w.]*").match(text, at)
        assert length is not None, "the pattern also matches nothing"
        return "it is not a number; a name that begins with a digit goes in backticks", max(1, len(length[0]))
    if char == "~":
        return NO_PATTERNS, 1
    if char == ";":
        rest = text[at + 1 :].strip()
        return ("only one condition is allowed: add each by itself" if rest else "leave out the ';' at the end"), 1
    if pair in ("&&", "||"):
        return f"expected {'AND' if char == '&' else 'OR'}, got {pair!r}", 2
    if char in "*/%^&|":
        return NO_CALCULATIONS, 1
    if pair == "::":
        return "casts are not part of a condition: write a literal of the type itself", 2
    if char in ":{$@":
        return "a parameter is written ? or :name, with its value in params", 1
    if char in "[]":
        return f"expected a parenthesis, got {char!r}: a list is written IN (1, 2)", 1
    if found := _CURLY_STRING.match(text, at):
        return _beyond_ascii(char), len(found[0])
    return _beyond_ascii(char) if char > "\x7f" else f"{char!r} is not part of the language", 1


def _open_quote(text: str, at: int) -> tuple[str, int | None]:
    if text[at : at + 2] == "``":
        return "expected a name between backticks, got nothing", 2
    quote = text[at]
    inside = quote == "'" and at > 0 and (text[at - 1].isalnum() or text.count(quote) > 1)
    hint = "; a quote inside a string is written twice, as in 'it''s'" if inside else ""
    return f"a quote is not closed: expected another {quote}{hint}", None


def _beyond_ascii(char: str) -> str:
    if char in _CURLY_QUOTES:
        return f"expected a straight quote, ' or \", got {char!r}"
    if char in _LOOKALIKES:
        return f"expected {_LOOKALIKES[char]}, got {char!r}"
    return "a name with characters other than ASCII letters, digits and _ goes in backticks"


# --- tokens that cannot follow each other -----------------------------------------------------------------------


def advice(text: str, start: int, kinds: tuple[str, str, str], words: tuple[str, str, str], adjacent: bool) -> str:
    """What to write instead, where two neighbours show what was meant; nothing where they do not.

    `kinds` and `words` are those of the token before, of the one that is out of place and of the one after it;
    `adjacent` says that there is no space before it.
    """
    before, this, after = kinds
    if this == "-" and adjacent and (found := _dashed(text, start)):
        return f"{NO_CALCULATIONS}; if {found} is one name, write it in backticks: `{found}`"
    if before == this == "name" and after in ("comparison", "IN", "IS", "LIKE", "BETWEEN"):
        return (
            f"expected an operator after {words[0]!r}, got {words[1]!r};"
            f" if it is one name, write it in backticks: `{words[0]} {words[1]}`"
        )
    if before == this == "comparison" and adjacent and (words[0], words[1]) in _REVERSED:
        return f"expected {_REVERSED[words[0], words[1]]}, got {words[0]}{words[1]}"
    return ""


def _dashed(text: str, dash: int) -> str:
    """The name with dashes around this place, if it looks like one."""
    start = dash
    while start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    found = _DASHED.match(text, start)
    parts = found[0].split("-") if found else []
    return found[0] if found and found.end() > dash and not any(part.isdigit() for part in parts) else ""
