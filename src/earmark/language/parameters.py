"""Conditions with parameters: `rooms >= ? AND city = :city`, and their values apart from the text.

    text      rooms >= ? AND city IN ?
    params    [3, ["Rome", "it's"]]
    bound     rooms >= 3 AND city IN ('Rome', 'it''s')

Each value is written as the literal that reads back as exactly this value (`literal_sql`), so the text that is kept
for a subscription is a condition without parameters. The tokenizer finds the parameters: a question mark or a colon
inside quotes is not a parameter.

**Invariant**: a value is one literal, whatever it holds. It is set off by spaces, so it can never become a part of the
token before or after it; and it may only follow a token after which a value is read as a value (`_BEFORE`): after
DATE or in CAST a string would be read as another type, after a dot NULL would be read as a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from earmark.errors import SubscriptionError, shortened
from earmark.language.order import COMPARISONS
from earmark.language.predicate import checked_value, is_list, listed, literal_sql
from earmark.language.refusals import refusal
from earmark.language.tokens import Token, tokens_of
from earmark.language.words import did_you_mean

Params: TypeAlias = "Sequence[Any] | Mapping[str, Any]"
_OPEN, _CLOSED = ("", " ", "\n", "("), ("", " ", "\n", ")", ",")  # what sets a literal off by itself
_BEFORE = COMPARISONS | frozenset("( , ! AND OR NOT BETWEEN LIKE ESCAPE IN FROM IS".split())


def bound(text: str, params: Params) -> str:
    """The text with its parameters replaced by literals; raises SubscriptionError.

    >>> bound("rooms >= ? AND city = ?", [3, "it's"])
    "rooms >= 3 AND city = 'it''s'"
    >>> bound("city IN :cities", {"cities": ["Rome", "Oslo"]})
    "city IN ('Rome', 'Oslo')"
    """
    try:
        tokens = tokens_of(text)
        places = [i for i, token in enumerate(tokens) if token.kind == "parameter"]
        values = _values([tokens[i] for i in places], params)
        pieces: list[str] = []
        end = 0
        for i, value in zip(places, values, strict=True):
            token = tokens[i]
            pieces.append(text[end : token.start])
            end = token.start + len(token.text)
            left = "" if text[max(token.start - 1, 0) : token.start] in _OPEN else " "
            right = "" if text[end : end + 1] in _CLOSED else " "
            pieces.append(left + _literal(tokens, i, value) + right)
        return "".join([*pieces, text[end:]])
    except SubscriptionError as problem:
        raise problem.at(condition=text) from None


def _values(parameters: list[Token], params: Params) -> list[Any]:
    """The value of each parameter of the text, in its order."""
    unnamed = [token for token in parameters if token.text == "?"]
    if unnamed and len(unnamed) < len(parameters):
        named = next(token for token in parameters if token.text != "?")
        raise _refused(f"expected parameters of one kind, got both ? and {named.text}", named)
    if isinstance(params, Mapping):
        return _named_values(parameters, params)
    if isinstance(params, str | bytes) or not (isinstance(params, Sequence) or is_list(params)):
        raise SubscriptionError(f"expected params as a sequence or a mapping, got {type(params).__name__}")
    if parameters and not unnamed:
        raise _refused(f"expected params as a mapping for {parameters[0].text}, got a sequence", parameters[0])
    if isinstance(params, set | frozenset):
        raise SubscriptionError("expected params in order, got a set")
    if len(params) != len(unnamed):
        raise SubscriptionError(
            f"expected {len(unnamed)} value{'s' * (len(unnamed) != 1)} in params, got {len(params)}"
        )
    return list(params)


def _named_values(parameters: list[Token], params: Mapping[str, Any]) -> list[Any]:
    if parameters and parameters[0].text == "?":
        raise _refused("expected params as a sequence for ?, got a mapping", parameters[0])
    names = {token.text[1:] for token in parameters}
    for token in parameters:
        if token.text[1:] not in params:
            spare = [name for name in params if isinstance(name, str) and name not in names]
            raise _refused(f"params have no value for {token.text}{did_you_mean(token.text[1:], spare)}", token)
    for name in params:
        if name not in names:
            hint = did_you_mean(name, names) if isinstance(name, str) else ""
            raise SubscriptionError(f"params have a value for {name!r}, which the condition does not use{hint}")
    return [params[token.text[1:]] for token in parameters]


def _literal(tokens: list[Token], i: int, value: Any) -> str:
    """The value of the parameter at token i, as text."""
    token, before = tokens[i], tokens[i - 1].word if i else "("
    if i > 1 and before == "(" and tokens[i - 2].word == "CAST":
        raise _refused("a parameter cannot go inside CAST: give the value in its own type", token)
    if i and before not in _BEFORE:
        raise _refused(f"a parameter cannot go after {shortened(tokens[i - 1].text, 60)!r}", token)
    if not is_list(value):
        if before == "IN":
            raise _refused(f"expected a list of values after IN, got {shortened(repr(value), 60)}", token)
        return _checked(token, value)
    bare, alone = before == "IN", _is_alone_in_list(tokens, i)
    if not (bare or alone):
        raise _refused("expected one value, got a list: a list goes after IN only, as IN ? or IN (?)", token)
    if not len(value):
        raise _refused("expected at least one value after IN, got an empty list", token)
    items = ", ".join(_checked(token, item) for item in listed(value))
    return f"({items})" if bare else items


def _is_alone_in_list(tokens: list[Token], i: int) -> bool:
    """Whether a parameter is all of the list after IN: `IN (?)`."""
    return i > 1 and [t.word for t in (*tokens[i - 2 : i], *tokens[i + 1 : i + 2])] == ["IN", "(", ")"]


def _checked(token: Token, value: Any) -> str:
    try:
        return literal_sql(checked_value(value, f"for the parameter {token.text}"))
    except SubscriptionError as problem:
        raise _refused(problem.reason, token) from None


def _refused(reason: str, token: Token) -> SubscriptionError:
    return refusal(reason, token.text, token.start, token.start + len(token.text))
