"""From SQL text to a condition.

sqlglot (Spark dialect) is the grammar; it is not the validator, and it never sees a name or a literal:

    text       age >= 22.5 AND city IN ('x', 'it''s')
    shape      n0 >= 900000000 AND n1 IN (800000001)      every token checked, names and literals out (tokens.py)
    tree       sqlglot's, walked by a whitelist of nodes *and their arguments*
    template   our clauses with holes for the literals; kept, so that a text of a known shape needs no grammar
    clauses    the template with the literals of this text

Literals are read by literals.py under Spark's rules. Length, nesting and number of clauses are bounded.
Threads may parse at the same time: a template never changes, and new ones are put in place under a lock.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from threading import Thread
from typing import TYPE_CHECKING, Any

from earmark.errors import SubscriptionError
from earmark.locks import remade_lock
from earmark.model.attribute import MAX_NAME
from earmark.model.literals import LiteralError, negated, plain_pattern
from earmark.model.normal import Atom, Clauses, Leaf, Mode, TooManyClauses, filled, leaf_of, normal_form
from earmark.model.predicate import MAX_TEXT, And, Condition, Constant, Is, Not, Or, check_text, joined, shortened, test
from earmark.model.tokens import (
    FIRST_HOLE,
    FIRST_LIST,
    KINDS,
    Kind,
    Lexed,
    Refused,
    lex,
    split_units,
    units_are_slots,
)

if TYPE_CHECKING:
    from sqlglot import exp

_MAX_TEMPLATES = 4096
_MAX_TEMPLATE_LEAVES = 256
_MAX_TEMPLATE_TEXT = 4096
_STAND_IN = re.compile(r"n(\d+)")
_STAND_INS = re.compile(rf"\bn(\d+)\b|\(?'?\b([{FIRST_LIST // 10**8}{FIRST_HOLE // 10**8}]\d{{8}})\b'?")


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a literal of the text goes; `form` says how it is read there, `escape` which literal is its ESCAPE."""

    index: int
    form: str = "value"
    escape: int = -1


def parse(text: str) -> Condition:
    """The condition a text stands for, or a SubscriptionError.

    >>> print(parse("NOT (age < 22 OR city IN ('x', 'it''s'))"))
    NOT (age < 22 OR city IN ('x', 'it''s'))
    """
    try:
        lexed = lex(text)
        tree = _Grammar(lexed).condition()
        tokens = [text[slot.start : slot.end] for slot in lexed.slots]
        literals = _literals([KINDS[slot.kind] for slot in lexed.slots], tokens)
        assert literals is not None, "tokens are of the kinds of their slots"
        made: Condition = filled(tree, lambda value: _filled(value, literals, tokens))
        return made
    except Refused as problem:
        raise _error(text, problem) from None


def parse_clauses(text: str) -> Clauses:
    """The clauses of a text; texts of a known shape skip the grammar."""
    try:
        between: tuple[str, ...] = ()
        if isinstance(text, str) and len(text) <= MAX_TEXT:
            between, tokens = split_units(text)
            template = _templates.get(between)
            if template is not None and (clauses := template.clauses_with(tokens)) is not None:
                return clauses
        lexed = lex(text)
        template = Template(lexed, normal_form(_Grammar(lexed).condition()))
        if units_are_slots(lexed):
            _keep(between, template)
        clauses = template.clauses_with([text[slot.start : slot.end] for slot in lexed.slots])
        assert clauses is not None, "a template takes the literals it was made from"
        return clauses
    except (Refused, TooManyClauses) as problem:
        raise _error(text, problem) from None


def _error(text: Any, problem: Exception) -> SubscriptionError:
    piece = getattr(problem, "piece", "")
    where = f" at {shortened(piece, 60)!r}" if piece else ""
    shown = repr(shortened(text, 200)) if isinstance(text, str) else shortened(repr(text), 200)
    return SubscriptionError(f"condition {shown}{where}: {problem}")


# --- templates -----------------------------------------------------------------------------------------------

_templates: dict[tuple[str, ...], Template] = {}
_templates_lock = remade_lock()


def _keep(between: tuple[str, ...], template: Template) -> None:
    """Remember the template of a shape; the oldest gives way."""
    if template.size <= _MAX_TEMPLATE_LEAVES and sum(map(len, between)) <= _MAX_TEMPLATE_TEXT:
        with _templates_lock:
            while len(_templates) >= _MAX_TEMPLATES:
                del _templates[next(iter(_templates))]
            _templates[between] = template


class Template:
    """Clauses with holes, compiled flat: literals -> values -> leaves -> clauses, each from those before it."""

    __slots__ = ("_clauses", "_derived", "_kinds", "_leaves", "size")

    def __init__(self, lexed: Lexed, clauses: Clauses) -> None:
        self._kinds = [KINDS[slot.kind] for slot in lexed.slots]
        self._derived: list[Any] = []  # values beyond the literals: constants, dates, negated numbers
        self._leaves: list[tuple[str, str, tuple[int, ...], Mode]] = []
        numbers: dict[int, int] = {}
        self._clauses = [
            [(name, [self._compiled(atom, numbers) for atom in atoms]) for name, atoms in clause] for clause in clauses
        ]
        self.size = len(self._leaves) + sum(len(atoms) for clause in self._clauses for _, atoms in clause)

    def _compiled(self, atom: Atom, numbers: dict[int, int]) -> Any:
        """A leaf as its number, others as (AnyOf or AllOf, parts)."""
        if not isinstance(atom, Leaf):
            return type(atom), [self._compiled(part, numbers) for part in atom.parts]
        if id(atom) not in numbers:  # a leaf stands in many clauses, but is one object
            numbers[id(atom)] = len(self._leaves)
            predicate = atom.predicate
            values = tuple([self._place(value) for value in predicate.values])
            self._leaves.append((predicate.attribute, predicate.operator, values, atom.mode))
        return numbers[id(atom)]

    def _place(self, value: Any) -> int:
        if isinstance(value, Hole) and value.form == "value":
            return value.index
        self._derived.append(value)
        return len(self._kinds) + len(self._derived) - 1

    def clauses_with(self, tokens: list[str]) -> Clauses | None:
        """The clauses with these literals; None when one is of another kind than the template's."""
        values = _literals(self._kinds, tokens)
        if values is None:
            return None
        if self._derived:
            values += [_filled(value, values, tokens) for value in self._derived]
        leaves: list[Leaf] = []
        for attribute, operator, places, mode in self._leaves:
            if len(places) == 1:
                value = values[places[0]]
                leaves.append(leaf_of(attribute, operator, value if type(value) is tuple else (value,), mode))
            else:
                leaves.append(leaf_of(attribute, operator, tuple([values[p] for p in places]), mode))
        return tuple([tuple([(name, _made(atoms, leaves)) for name, atoms in clause]) for clause in self._clauses])


def _literals(kinds: list[Kind], tokens: list[str]) -> list[Any] | None:
    """The values of literals; None when one is not of its kind."""
    values: list[Any] = []
    try:
        for (openings, read), token in zip(kinds, tokens, strict=True):
            if token[0] not in openings:
                return None
            values.append(read(token))
    except LiteralError as problem:
        raise Refused(str(problem), token) from None
    return values


def _made(atoms: list[Any], leaves: list[Leaf]) -> tuple[Atom, ...]:
    """Atoms from leaf numbers and (AnyOf or AllOf, parts)."""
    if len(atoms) == 1 and type(atoms[0]) is int:
        return (leaves[atoms[0]],)
    return tuple([leaves[a] if type(a) is int else a[0](_made(a[1], leaves)) for a in atoms])


def _filled(value: Any, literals: list[Any], tokens: list[str]) -> Any:
    """The value of a hole (a plain list is a tuple) or constant."""
    if not isinstance(value, Hole):
        return value
    literal = literals[value.index]
    try:
        match value.form:
            case "negative":
                return negated(literal)
            case "escaped":
                return plain_pattern(literal, literals[value.escape])
        return literal
    except LiteralError as problem:
        raise Refused(str(problem), tokens[value.index]) from None


# --- grammar -------------------------------------------------------------------------------------------------


def _tree(shape: str) -> exp.Expression | Exception:
    """sqlglot's tree of a shape, or what it threw."""
    try:
        parsed = _dialect().parse(shape)
    except Exception as problem:  # ParseError, but also IndexError, TypeError, RecursionError, …
        return problem
    return parsed[0] if len(parsed) == 1 and parsed[0] is not None else ValueError("not one condition")


def _tree_on_fresh_stack(shape: str) -> exp.Expression | Exception:
    """The same where the caller has used up the stack: a thread begins with an empty one."""
    found: list[Any] = []
    thread = Thread(target=lambda: found.append(_tree(shape)), name="earmark-parse")
    thread.start()
    thread.join()
    made: exp.Expression | Exception = found[0]
    return made


@cache
def _dialect() -> Any:
    from sqlglot.dialects.spark import Spark

    return Spark()


@cache
def _known_arguments() -> dict[type, frozenset[str]]:
    from sqlglot import exp

    pair = frozenset({"this", "expression"})
    return {
        **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape, exp.Dot, *_operators()), pair),
        **dict.fromkeys((exp.Not, exp.Paren, exp.Boolean, exp.Neg), frozenset({"this"})),
        exp.Null: frozenset(),
        exp.Column: frozenset({"this", "table", "db", "catalog"}),
        exp.Identifier: frozenset({"this", "quoted"}),
        exp.Between: frozenset({"this", "low", "high"}),
        exp.In: frozenset({"this", "expressions"}),
        exp.Like: pair | {"negate"},
        exp.Literal: frozenset({"this", "is_string"}),
    }


@cache
def _operators() -> dict[type, tuple[str, str]]:
    """The operator of a node, and the one it becomes when the literal stands first."""
    from sqlglot import exp

    return {
        exp.EQ: ("=", "="),
        exp.NEQ: ("!=", "!="),
        exp.LT: ("<", ">"),
        exp.LTE: ("<=", ">="),
        exp.GT: (">", "<"),
        exp.GTE: (">=", "<="),
        exp.NullSafeEQ: ("<=>", "<=>"),
        exp.NullSafeNEQ: ("<=>", "<=>"),
    }


_HINTS = {
    "Alias": "something follows the condition that does not belong to it",
    "Concat": "two strings stand side by side",
    "Tuple": "a list of values stands after IN only",
    **dict.fromkeys(("Add", "Sub", "Neg"), "calculations are not part of a condition"),
}


class _Grammar:
    """The condition of one text, with Holes for its literals: a walk over sqlglot's tree that knows every node."""

    def __init__(self, lexed: Lexed) -> None:
        self._lexed = lexed

    def condition(self) -> Condition:
        """All of the text."""
        tree = _tree(self._lexed.shape)
        if isinstance(tree, RecursionError):
            tree = _tree_on_fresh_stack(self._lexed.shape)
        if isinstance(tree, Exception):
            raise self._ungrammatical(tree)
        made = self._convert(tree)
        if made == Constant(None):  # Spark refuses a WHERE that is nothing but NULL
            raise Refused("NULL alone is not a condition")
        return made

    # --- conditions ---

    def _convert(self, node: exp.Expression) -> Condition:
        from sqlglot import exp

        self._check_arguments(node)
        if isinstance(node, exp.And | exp.Or):
            return self._chain(node)
        if isinstance(node, exp.Not):
            return Not(self._convert(node.this))
        if isinstance(node, exp.Paren):
            return self._convert(node.this)
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, exp.Column | exp.Dot):
            return test(self._name(node), "=", (True,))
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Between):
            low, high = self._value(node.args["low"]), self._value(node.args["high"])
            return test(self._name(node.this), "BETWEEN", (low, high))
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node)
        return self._comparison(node)

    def _chain(self, node: exp.Expression) -> Condition:
        """A chain of ANDs (or ORs) of any length, without recursion along it."""
        from sqlglot import exp

        kind = type(node)
        parts: list[Condition] = []
        while type(node) is kind:
            self._check_arguments(node)
            parts.append(self._convert(node.expression))
            node = node.this
        parts.append(self._convert(node))
        parts.reverse()
        return joined(And if kind is exp.And else Or, parts)

    def _comparison(self, node: exp.Expression) -> Condition:
        from sqlglot import exp

        if type(node) not in _operators():
            raise Refused("a literal alone is not a condition", self._shown(node))
        left, right = node.this, node.expression
        plain, flipped = _operators()[type(node)]
        if _is_literal(left) and not _is_literal(right):
            made = test(self._name(right), flipped, (self._value(left),))
        else:
            made = test(self._name(left), plain, (self._value(right),))
        return Not(made) if isinstance(node, exp.NullSafeNEQ) else made

    def _is(self, node: exp.Expression) -> Condition:
        from sqlglot import exp

        asked = node.expression
        if isinstance(asked, exp.Null):
            return test(self._name(node.this), "IS NULL", ())
        if not isinstance(asked, exp.Boolean):
            raise Refused("IS takes NULL, TRUE or FALSE", self._shown(asked))
        if isinstance(node.this, exp.In | exp.Like | exp.Between | exp.Is | exp.Not | exp.Escape):
            raise Refused("what IS is asked of stands in parentheses", self._shown(node))
        return Is(self._convert(node.this), bool(asked.this))

    def _in(self, node: exp.Expression) -> Condition:
        from sqlglot import exp

        name, values = self._name(node.this), node.expressions
        if not values:
            raise Refused("IN takes a list of values in parentheses", self._shown(node))
        if len(values) == 1 and isinstance(values[0], exp.Literal) and str(values[0].this).startswith("8"):
            return test(name, "IN", (Hole(int(values[0].this) - FIRST_LIST),))
        return test(name, "IN", tuple(self._value(value) for value in values))

    def _like(self, node: exp.Expression) -> Condition:
        from sqlglot import exp

        escape = -1
        if isinstance(node, exp.Escape):
            escape = self._escape(node.expression)
            node = node.this
            self._check_arguments(node)
            if not isinstance(node, exp.Like):
                raise Refused("ESCAPE belongs to LIKE", self._shown(node))
        pattern = self._value(node.expression)
        if pattern is not None and not self._is_text(pattern):
            raise Refused("LIKE takes a text", self._shown(node.expression))
        if escape >= 0 and pattern is not None:
            pattern = Hole(pattern.index, "escaped", escape)
        made: Condition = test(self._name(node.this), "LIKE", (pattern,))
        return Not(made) if node.args.get("negate") else made

    def _escape(self, node: exp.Expression) -> int:
        value = self._value(node)
        if not self._is_text(value):
            raise Refused("ESCAPE takes one character in quotes", self._shown(node))
        index: int = value.index
        return index

    def _is_text(self, value: Any) -> bool:
        return isinstance(value, Hole) and self._lexed.slots[value.index].kind == "string"

    # --- names and values ---

    def _name(self, node: exp.Expression) -> str:
        from sqlglot import exp

        node = self._bare(node)
        self._check_arguments(node)
        if isinstance(node, exp.Dot):
            return f"{self._name(node.this)}.{self._identifier(node.expression)}"
        if not isinstance(node, exp.Column):
            shown = self._shown(node)
            hint = "; in double quotes it is a text, a name stands in backquotes" if shown.startswith('"') else ""
            raise Refused(f"an attribute's name was expected here, to compare with literals{hint}", shown)
        parts = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
        name = ".".join(self._identifier(part) for part in parts if part is not None)
        if len(name) > MAX_NAME:
            raise Refused(f"a name has at most {MAX_NAME:,} characters", name)
        if not name.isascii():
            check_text(name, f"the name {shortened(name, 60)!r}")
        return name

    def _identifier(self, node: exp.Expression) -> str:
        from sqlglot import exp

        self._check_arguments(node)
        found = _STAND_IN.fullmatch(node.this) if isinstance(node, exp.Identifier) else None
        if found is None:  # sqlglot takes some keywords for names, too
            raise Refused("a name was expected here", self._shown(node))
        return self._lexed.names[int(found[1])]

    def _value(self, node: exp.Expression) -> Any:
        """The hole or constant that stands at a literal's place."""
        from sqlglot import exp

        node = self._bare(node)
        self._check_arguments(node)
        if isinstance(node, exp.Literal):
            return self._hole(node)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
            return self._hole(node.this, "negative")
        if isinstance(node, exp.Boolean):
            return bool(node.this)
        if isinstance(node, exp.Null):
            return None
        if isinstance(node, exp.Column | exp.Dot):
            raise Refused("an attribute is compared with literals, not with another attribute", self._shown(node))
        raise Refused("a literal was expected here", self._shown(node))

    def _hole(self, literal: exp.Expression, form: str = "value") -> Hole:
        found = re.fullmatch(r"\d{9}", literal.this)
        if found is None:  # sqlglot joins a dot and a number that stand apart
            raise Refused("a literal was expected here")
        if int(found[0]) < FIRST_HOLE:
            raise Refused("a list of values stands after IN only", self._shown(literal))
        return Hole(int(found[0]) - FIRST_HOLE, form)

    def _bare(self, node: exp.Expression) -> exp.Expression:
        """What stands inside parentheses."""
        from sqlglot import exp

        while isinstance(node, exp.Paren):
            self._check_arguments(node)
            node = node.this
        return node

    # --- refusals ---

    def _check_arguments(self, node: exp.Expression) -> None:
        """Every node and every argument of it is known, or it is refused."""
        known = _known_arguments().get(type(node))
        if known is None or any(v not in (None, False, []) for k, v in node.args.items() if k not in known):
            shown = node.args["alias"] if type(node).__name__ == "Alias" else node
            raise Refused(_HINTS.get(type(node).__name__, "this is not part of the language"), self._shown(shown))

    def _shown(self, node: exp.Expression) -> str:
        """A node as text, with the names and literals that the user wrote."""
        try:
            text = node.sql(dialect="spark")
        except Exception:  # as with parsing, anything may come out; the reason stands without the piece
            return ""
        return _STAND_INS.sub(self._original, text)

    def _original(self, found: re.Match[str]) -> str:
        """What the user wrote where a stand-in stands."""
        if found[1]:
            return self._lexed.names[int(found[1])]
        slot = self._lexed.slots[int(found[2]) % 10**8]
        opening = "(" if found[0][0] == "(" and slot.kind != "list" else ""
        return opening + self._lexed.text[slot.start : slot.end]

    def _ungrammatical(self, problem: Exception) -> Refused:
        """Where sqlglot stopped, in terms of the text."""
        details = (getattr(problem, "errors", None) or [{}])[0]
        if isinstance(problem, RecursionError) or not details.get("col"):
            return Refused("it does not read as a condition")
        lexed = self._lexed
        i = min(bisect_left(lexed.ends, details["col"]), len(lexed.spans) - 1)
        start, end = lexed.spans[i]
        piece = lexed.text[start:end]
        if "nexpected" in str(details.get("description")):
            return Refused("this does not belong here", piece)
        if i == len(lexed.spans) - 1:
            return Refused("it ends too early, after this", piece)
        return Refused("something is missing or wrong after this", piece)


def _is_literal(node: exp.Expression) -> bool:
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        node = node.this
    return isinstance(node, exp.Literal | exp.Neg | exp.Boolean | exp.Null)


__all__ = ["parse", "parse_clauses"]
