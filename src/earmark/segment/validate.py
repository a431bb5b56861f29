"""What is wrong with a condition, all of it, and where: for editors.

An empty answer means that `Matcher(attributes=…).add` takes the condition, because that is asked first, in the same
way. Only what is refused is looked at again, piece by piece, as far as each step can go on after a refusal:

    tokens      every character and word that is not of the language; with any of these, the rest cannot be read
    order       the first token that cannot follow the one before it
    grammar     every part that is read, but refused, such as `a > b`
    literals    every one that has no value, such as DATE '2024-02-30'
    types       every predicate that clashes with its attribute's type, declared or learned from an earlier one
    names       with `strict`, every one that is not declared
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from earmark.errors import EarmarkError, SubscriptionError, shortened
from earmark.keys.bind import Binder, leaves
from earmark.keys.schema import Draft, Schema
from earmark.language.literals import LiteralError
from earmark.language.normal import Clauses, normal_form
from earmark.language.parse import leaf_of, value_of
from earmark.language.predicate import Condition, Leaf, Mode, Predicate
from earmark.language.refusals import refusal
from earmark.language.tokens import KINDS, Hole, Lexed, check_order, scan
from earmark.language.words import did_you_mean
from earmark.segment.builder import check_lists, clauses_and_text

_BAD: Any = object()
_MAX_LISTED = 10


class Problem(NamedTuple):
    """Something wrong with a condition: its place, as offsets into the text, and a sentence."""

    start: int
    end: int
    message: str


def validate(
    text: str, attributes: Mapping[str, str] | Schema | None = None, zone: str = "UTC", *, strict: bool = False
) -> list[Problem]:
    """Every problem of a condition that can be found, in the order of the text; none if a Matcher would take it.

    `attributes` maps names to types, as in `Matcher(attributes=…)`, or is a schema (whose zone then counts);
    with `strict`, a name that is not among them is a problem, too.

    >>> validate("age > 'old' AND ctiy = 'Rome'", {"age": "integer", "city": "string"}, strict=True)[1]
    Problem(start=16, end=20, message="unknown attribute 'ctiy': did you mean 'city'?")
    """
    schema = _schema(attributes, zone)
    problems = _problems(text, schema)
    if strict and isinstance(text, str):
        known = {problem.start for problem in problems}
        problems += [problem for problem in _unknown_names(text, schema) if problem.start not in known]
    return sorted(dict.fromkeys(problems))


def _schema(attributes: Mapping[str, str] | Schema | None, zone: str) -> Schema:
    if isinstance(attributes, Schema):
        return attributes
    if attributes is not None and not isinstance(attributes, Mapping):
        raise EarmarkError(f"expected attributes as a mapping such as {{'age': 'integer'}}, got {attributes!r}")
    schema = Schema(zone)
    schema.declare(attributes or {})
    return schema


def _problems(text: Any, schema: Schema) -> list[Problem]:
    """All problems but unknown names."""
    try:
        _bind(clauses_and_text(text)[0], Binder(Draft(schema)))
        return []
    except EarmarkError as problem:
        whole = _problem(text, problem)
    if not isinstance(text, str):
        return [whole]
    return _pieces(text, schema) or [whole]


def _bind(clauses: Clauses, binder: Binder) -> None:
    """Check types; raises what adding the clauses would raise."""
    check_lists(clauses)
    binder.bind(clauses)


def _problem(text: Any, problem: EarmarkError) -> Problem:
    """An error as a Problem; without a place of its own, it is about the whole text."""
    end = len(text) if isinstance(text, str) else 0
    return Problem(problem.start or 0, end if problem.end is None else problem.end, problem.reason)


# --- piece by piece --------------------------------------------------------------------------------------------


def _pieces(text: str, schema: Schema) -> list[Problem]:
    """The problems of each piece of a text that is refused as a whole."""
    from earmark.language.grammar import Grammar  # with sqlglot, which takes long to import

    refused: list[SubscriptionError] = []
    try:
        lexed = scan(text, refused.append)
        if refused:
            return [_problem(text, each) for each in refused]
        check_order(lexed)
        grammar = Grammar(lexed, refused.append)
        condition = grammar.condition()
    except SubscriptionError as problem:
        return [_problem(text, each) for each in (*refused, problem)]
    literals = _literals(lexed, refused)
    predicates = grammar.predicates()
    if not refused:
        predicates = _effective(condition, predicates, refused)
    problems = [_problem(text, each) for each in refused]
    return problems + _clashes([(grammar.place(one), one) for one in predicates], literals, schema)


def _literals(lexed: Lexed, refused: list[SubscriptionError]) -> list[Any]:
    """The values of all literals; one that has none is refused, and `_BAD` in its place."""
    values: list[Any] = []
    for slot in lexed.slots:
        token = lexed.text[slot.start : slot.end]
        try:
            values.append(KINDS[slot.kind].read(token))
        except LiteralError as problem:
            refused.append(refusal(problem.reason, token, slot.start, slot.end))
            values.append(_BAD)
    return values


def _effective(condition: Condition, predicates: list[Predicate], refused: list[SubscriptionError]) -> list[Predicate]:
    """The predicates whose types count: not those that a constant FALSE or NULL switches off."""
    try:
        clauses = normal_form(condition)
    except SubscriptionError as problem:
        refused.append(problem)
        return predicates
    used = {id(leaf.predicate) for clause in clauses for _, atoms in clause for atom in atoms for leaf in leaves(atom)}
    return [predicate for predicate in predicates if id(predicate) in used]


def _clashes(predicates: list[tuple[tuple[int, int], Predicate]], literals: list[Any], schema: Schema) -> list[Problem]:
    """The predicates that their attribute's type does not go with, each bound by itself, in the order of the text."""
    problems: list[Problem] = []
    binder = Binder(Draft(schema))
    for (start, end), predicate in predicates:
        try:
            leaf = _filled(predicate, literals)
            if leaf is not None:
                _bind((((predicate.attribute, (leaf,)),),), binder)
        except (EarmarkError, LiteralError) as problem:
            problems.append(Problem(start, end, problem.reason))
    return problems


def _filled(predicate: Predicate, literals: list[Any]) -> Leaf | None:
    """The predicate with its literals; None when one of them has no value."""
    values: list[Any] = []
    for value in predicate.values:
        if isinstance(value, Hole):
            if literals[value.index] is _BAD or (value.escape >= 0 and literals[value.escape] is _BAD):
                return None
            value = value_of(value, literals)
        values += value if isinstance(value, tuple) else [value]
    return leaf_of(predicate.attribute, predicate.operator, tuple(values), Mode.TRUE)


# --- names -----------------------------------------------------------------------------------------------------


def _unknown_names(text: str, schema: Schema) -> Iterator[Problem]:
    """The attributes of a text that are not declared."""
    try:
        lexed = scan(text, lambda problem: None)
    except SubscriptionError:
        return
    for start, end, name in _names(lexed):
        if name not in schema.by_name:
            yield Problem(start, end, f"unknown attribute {shortened(name, 60)!r}{_suggestion(name, schema)}")


def _names(lexed: Lexed) -> Iterator[tuple[int, int, str]]:
    """Each name with its place; its parts with dots between them are one name. Names of functions are left out."""
    kinds, parts = [*lexed.kinds, "", ""], iter(lexed.names)
    name, start = "", 0
    for i, kind in enumerate(lexed.kinds):
        if kind != "name":
            continue
        part, (first, end) = next(parts), lexed.spans[i]
        name, start = (f"{name}.{part}", start) if name else (part, first)
        if kinds[i + 1 : i + 3] == [".", "name"]:
            continue
        if kinds[i + 1] != "(":
            yield start, end, name
        name = ""


def _suggestion(name: str, schema: Schema) -> str:
    if not len(schema):
        return ": no attributes are declared"
    listed = ", ".join(map(repr, schema.names[:_MAX_LISTED])) + ", …" * (len(schema) > _MAX_LISTED)
    return did_you_mean(name, schema.names) or f": expected one of {listed}"
