"""From SQL text to a condition.

sqlglot (Spark dialect) is the grammar; it is not the validator, and it never sees a literal:

    text       age >= 22.5 AND city IN ('x', 'it''s')
    tokens     checked one by one against what the language has; anything else is refused here
    shape      age >= 900000000 AND city IN (900000001)          literals out, a stand-in each (one a plain list)
    tree       sqlglot's, walked by a whitelist of nodes *and their arguments*
    template   our clauses with holes; kept, so that a text of a known shape needs no grammar at all
    clauses    the template with the literals of this text

Literals are read by literals.py under Spark's rules. Length, nesting and number of clauses are bounded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from earmark.errors import SubscriptionError
from earmark.model.literals import (
    LiteralError,
    date_value,
    named_double,
    negated,
    number_value,
    plain_pattern,
    string_value,
    timestamp_value,
)
from earmark.model.normal import Clauses, TooManyClauses, filled, normal_form
from earmark.model.predicate import MAX_TEXT, And, Condition, Constant, Is, Not, Or, Predicate, test

if TYPE_CHECKING:
    from sqlglot import exp

MAX_NESTING = 40
_MAX_SHAPES = 4096
_MAX_SHAPE_TEXT = 4096
_FIRST_HOLE = 900_000_000

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n\f]+)
      | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:[bB][dD]|[lLsSyYdDfF])?(?![A-Za-z0-9_]))
      | (?P<string>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
      | (?P<name>`(?:[^`]|``)+`)
      | (?P<sign><=>|<=|>=|<>|!=|==|[=<>!(),.+]|-(?!-))""",
    re.VERBOSE | re.DOTALL,
)
_REFUSED_WORDS = frozenset({"UNKNOWN"})  # sqlglot reads it as NULL, wherever it stands
_CONSTANT_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}


class _Refused(Exception):
    """Why the text is not a condition, and the piece that shows it."""

    def __init__(self, reason: str, piece: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.piece = piece


@dataclass(frozen=True, slots=True)
class Hole:
    """Where a literal of the text goes in a template; `form` says how it is read there."""

    index: int
    form: str = "value"
    negative: bool = False


class Lexed(NamedTuple):
    """The shape of a text and its literals, as (token kind, token)."""

    shape: str
    literals: list[Any]


def parse(text: str) -> Condition:
    """The condition a text stands for, or a SubscriptionError."""
    try:
        lexed = lex(text)
        tree = _whole(lexed.shape)
        return filled(tree, lambda value: _fill(value, lexed.literals))
    except (_Refused, LiteralError) as problem:
        raise _error(text, problem) from None


_templates: OrderedDict[str, Clauses] = OrderedDict()


def parse_clauses(text: str) -> Clauses:
    """The clauses of a text; texts of a known shape skip the grammar."""
    try:
        lexed = lex(text)
        template = _templates.get(lexed.shape)
        if template is None:
            template = _learn(lexed.shape)
        literals = lexed.literals
        return tuple(
            tuple((name, tuple(filled(a, lambda v: _fill(v, literals)) for a in atoms)) for name, atoms in clause)
            for clause in template
        )
    except (_Refused, LiteralError) as problem:
        raise _error(text, problem) from None


def _learn(shape: str) -> Clauses:
    try:
        template = normal_form(_whole(shape))
    except TooManyClauses as problem:
        raise _Refused(str(problem)) from None
    if len(shape) <= _MAX_SHAPE_TEXT:
        if len(_templates) >= _MAX_SHAPES:
            try:
                _templates.popitem(last=False)
            except KeyError:  # another thread emptied it
                pass
        _templates[shape] = template
    return template


def _error(text: str, problem: _Refused | LiteralError) -> SubscriptionError:
    piece = getattr(problem, "piece", "")
    shown = text if len(text) <= 200 else text[:200] + "…"
    where = f" at {piece!r}" if piece else ""
    return SubscriptionError(f"condition {shown!r}{where}: {problem}")


# --- tokens --------------------------------------------------------------------------------------------------


def lex(text: str) -> Lexed:
    """Check every token and take the literals out."""
    if not isinstance(text, str):
        raise _Refused(f"a condition is a text or a Predicate; got {type(text).__name__}")
    if len(text) > MAX_TEXT:
        raise _Refused(f"it is longer than {MAX_TEXT:,} characters")
    tokens = _tokens(text)
    if not tokens:
        raise _Refused("it is empty; write TRUE for a condition that always holds")
    pieces: list[str] = []
    literals: list[Any] = []
    i = 0
    while i < len(tokens):
        kind, token = tokens[i]
        if kind == "number" or kind == "string":
            pieces.append(_stand_in(kind, len(literals)))
            literals.append(_literal(kind, token, i > 0 and tokens[i - 1][1] == "-"))
        else:
            pieces.append(token)
            if kind == "word" and token.upper() == "IN" and (listed := _plain_list(tokens, i + 1)):
                pieces.append(f"({_FIRST_HOLE + len(literals)})")
                literals.append(listed[0])
                i = listed[1]
        i += 1
    return Lexed(" ".join(pieces), literals)


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = depth = prefix = 0
    for found in _TOKEN.finditer(text):
        if found.start() != position:
            break
        position = found.end()
        kind, token = str(found.lastgroup), found.group()
        if kind == "space":
            continue
        if kind == "word" and token.upper() in _REFUSED_WORDS:
            raise _Refused("a name that SQL reads otherwise stands in backquotes", token)
        if token == ")" and tokens and tokens[-1][1] == ",":
            raise _Refused("a value is missing after the comma", ",)")
        tokens.append((kind, token))
        depth += (token == "(") - (token == ")")
        prefix = prefix + 1 if token in ("(", "!", "-", "+") or token.upper() == "NOT" else 0
        if depth > MAX_NESTING or prefix > MAX_NESTING:
            raise _Refused(f"it nests deeper than {MAX_NESTING} levels", token)
    if position != len(text):
        raise _Refused(_stray(text, position), text[position : position + 20])
    return tokens


def _stray(text: str, position: int) -> str:
    rest = text[position:]
    if rest[0] in "'\"`":
        return "a quote is not closed"
    if rest.startswith(("--", "/*")):
        return "comments are not part of a condition"
    if rest[0] > "\x7f":
        return "a name with other than ASCII letters stands in backquotes"
    return "unexpected text"


def _stand_in(kind: str, index: int) -> str:
    return str(_FIRST_HOLE + index) if kind == "number" else f"'{_FIRST_HOLE + index}'"


def _literal(kind: str, token: str, after_minus: bool) -> Any:
    try:
        return number_value(token, after_minus) if kind == "number" else string_value(token)
    except LiteralError as problem:
        raise _Refused(str(problem), token[:60]) from None


def _plain_list(tokens: list[tuple[str, str]], i: int) -> tuple[tuple[Any, ...], int] | None:
    """The literals of `( literal, … )` from token i on, and where it ends; None when there is anything else."""
    if i >= len(tokens) or tokens[i][1] != "(":
        return None
    values: list[Any] = []
    while True:
        i += 1
        minus = i < len(tokens) and tokens[i][1] == "-"
        i += minus
        if i + 1 >= len(tokens):
            return None
        kind, token = tokens[i]
        if kind in ("number", "string"):
            value = _literal(kind, token, minus)
            if minus and kind == "string":
                return None
            values.append(negated(value) if minus else value)
        elif kind == "word" and token.upper() in _CONSTANT_WORDS and not minus:
            values.append(_CONSTANT_WORDS[token.upper()])
        else:
            return None
        i += 1
        if tokens[i][1] == ")":
            return tuple(values), i
        if tokens[i][1] != ",":
            return None


def _fill(value: Any, literals: list[Any]) -> Any:
    """The literal that a hole stands for. Tuples are plain lists and spread where they stand."""
    if not isinstance(value, Hole):
        return value
    literal = literals[value.index]
    match value.form:
        case "date":
            return date_value(literal)
        case "timestamp":
            return timestamp_value(literal)
        case "double":
            return named_double(literal)
        case "value":
            return negated(literal) if value.negative else literal
    escape = literals[int(value.form)]  # LIKE … ESCAPE: the form is the escape's hole
    if not isinstance(escape, str) or len(escape) != 1:
        raise LiteralError(f"ESCAPE takes one character; got {escape!r}")
    return plain_pattern(literal, escape)


# --- grammar -------------------------------------------------------------------------------------------------


def _whole(shape: str) -> Condition:
    """The condition of a shape; Spark refuses a WHERE that is nothing but NULL."""
    made = _convert(_grammar(shape))
    if made == Constant(None):
        raise _Refused("NULL alone is not a condition")
    return made


def _grammar(shape: str) -> exp.Expression:
    """sqlglot's tree of a shape. Whatever it throws becomes one sentence."""
    from sqlglot.errors import SqlglotError

    try:
        parsed = _dialect().parse(shape)
    except SqlglotError as problem:
        raise _Refused("it is not a condition: " + _plain(str(problem))) from None
    except (RecursionError, IndexError, TypeError, ValueError, AttributeError, KeyError):
        raise _Refused("it is not a condition in Spark SQL") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise _Refused("it is not one condition")
    return parsed[0]


@cache
def _dialect() -> Any:
    import logging

    from sqlglot.dialects.spark import Spark

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    return Spark()


def _plain(message: str) -> str:
    message = re.sub(r"\x1b\[[0-9;]*m", "", message).split("\n")[0]
    message = re.sub(r" ?Line \d+, Col: \d+\.?", "", message)
    return re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", message).strip()[:200]


def _convert(node: exp.Expression) -> Condition:
    """sqlglot's tree as a condition; every node and every argument of it is known, or it is refused."""
    from sqlglot import exp

    _only_known_arguments(node)
    if isinstance(node, exp.And | exp.Or):
        return _chain(node)
    if isinstance(node, exp.Not):
        return Not(_convert(node.this))
    if isinstance(node, exp.Paren):
        return _convert(node.this)
    if isinstance(node, exp.Boolean):
        return Constant(bool(node.this))
    if isinstance(node, exp.Null):
        return Constant(None)
    if isinstance(node, exp.Column | exp.Dot):
        return test(_name(node), "=", (True,))
    if isinstance(node, exp.Is):
        return _is(node)
    if isinstance(node, exp.Between):
        return _between(node)
    if isinstance(node, exp.In):
        values = tuple(_value(v) for v in node.expressions)
        if not values:
            raise _Refused("IN takes at least one value", _name(node.this))
        return test(_name(node.this), "IN", values)
    if isinstance(node, exp.Like | exp.Escape):
        return _like(node)
    return _comparison(node)


@cache
def _known_arguments() -> dict[type, frozenset[str]]:
    from sqlglot import exp

    pair = frozenset({"this", "expression"})
    comparisons = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    return {
        **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape, exp.Dot, *comparisons), pair),
        **dict.fromkeys((exp.Not, exp.Paren, exp.Boolean, exp.Neg), frozenset({"this"})),
        exp.Null: frozenset(),
        exp.Column: frozenset({"this", "table", "db", "catalog"}),
        exp.Identifier: frozenset({"this", "quoted"}),
        exp.Between: frozenset({"this", "low", "high"}),
        exp.In: frozenset({"this", "expressions"}),
        exp.Like: pair | {"negate"},
        exp.Literal: frozenset({"this", "is_string"}),
        exp.Cast: frozenset({"this", "to"}),
        exp.TryCast: frozenset({"this", "to"}),
    }


_HINTS = {
    "Alias": "something follows the condition that does not belong to it",
    "Block": "only one condition is allowed",
    "Subquery": "subqueries are not part of a condition",
    "Select": "a condition is what stands after WHERE, without SELECT",
    "Anonymous": "functions are not part of a condition",
    "Concat": "two strings stand side by side",
}


def _only_known_arguments(node: exp.Expression) -> None:
    known = _known_arguments().get(type(node))
    unknown = known is None or any(v not in (None, False, []) for k, v in node.args.items() if k not in known)
    if unknown:
        name = type(node).__name__
        raise _Refused(_HINTS.get(name, f"{name.upper()} is not part of the language of conditions"))


def _chain(node: exp.Expression) -> Condition:
    """A chain of ANDs (or ORs) of any length, without recursion along it."""
    from sqlglot import exp

    kind = type(node)
    parts: list[Condition] = []
    while type(node) is kind:
        _only_known_arguments(node)
        parts.append(_convert(node.expression))
        node = node.this
    parts.append(_convert(node))
    return (And if kind is exp.And else Or)(tuple(reversed(parts)))


def _bare(node: exp.Expression) -> exp.Expression:
    """What stands inside parentheses."""
    from sqlglot import exp

    while isinstance(node, exp.Paren):
        _only_known_arguments(node)
        node = node.this
    return node


def _name(node: exp.Expression) -> str:
    from sqlglot import exp

    node = _bare(node)
    if isinstance(node, exp.Dot):
        _only_known_arguments(node)
        return f"{_name(node.this)}.{_identifier(node.expression)}"
    if not isinstance(node, exp.Column):
        _only_known_arguments(node)
        raise _Refused("an attribute's name was expected, compared with literals only", _shown(node))
    _only_known_arguments(node)
    parts = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
    return ".".join(_identifier(part) for part in parts if part is not None)


def _identifier(node: exp.Expression) -> str:
    from sqlglot import exp

    if not isinstance(node, exp.Identifier):
        raise _Refused("a name was expected", _shown(node))
    _only_known_arguments(node)
    return str(node.this)


def _shown(node: exp.Expression) -> str:
    return type(node).__name__.upper()


def _is_literal(node: exp.Expression) -> bool:
    from sqlglot import exp

    return isinstance(_bare(node), exp.Literal | exp.Neg | exp.Boolean | exp.Null | exp.Cast)


def _value(node: exp.Expression) -> Any:
    """The hole or constant that stands at a literal's place."""
    from sqlglot import exp

    node = _bare(node)
    _only_known_arguments(node)
    if isinstance(node, exp.Literal):
        return Hole(int(node.this) - _FIRST_HOLE)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return Hole(int(node.this.this) - _FIRST_HOLE, negative=True)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        return Hole(int(node.this.this) - _FIRST_HOLE, _cast_form(node))
    if isinstance(node, exp.Column | exp.Dot):
        raise _Refused("an attribute is compared with literals, not with another attribute", _name(node))
    raise _Refused("a literal was expected", _shown(node))


def _cast_form(node: exp.Expression) -> str:
    from sqlglot import exp

    form = {
        exp.DType.DATE: "date",
        exp.DType.TIMESTAMP: "timestamp",
        exp.DType.TIMESTAMPTZ: "timestamp",
        exp.DType.DOUBLE: "double",
    }.get(node.args["to"].this)
    if form is None or node.args["to"].args.get("expressions"):
        raise _Refused("only DATE '…', TIMESTAMP '…' and CAST('NaN' AS DOUBLE) are typed literals")
    return form


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


def _comparison(node: exp.Expression) -> Condition:
    from sqlglot import exp

    if type(node) not in _operators():
        raise _Refused("a condition was expected", _shown(node))
    left, right = node.this, node.expression
    plain, flipped = _operators()[type(node)]
    if _is_literal(left) and not _is_literal(right):
        made = test(_name(right), flipped, (_value(left),))
    else:
        made = test(_name(left), plain, (_value(right),))
    return Not(made) if isinstance(node, exp.NullSafeNEQ) else made


def _is(node: exp.Expression) -> Condition:
    from sqlglot import exp

    asked = node.expression
    if isinstance(asked, exp.Null):
        return test(_name(node.this), "IS NULL", ())
    if isinstance(asked, exp.Boolean):
        if isinstance(node.this, exp.In | exp.Like | exp.Between | exp.Is | exp.Not | exp.Escape):
            raise _Refused("what IS is asked of stands in parentheses")
        return Is(_convert(node.this), bool(asked.this))
    raise _Refused("IS takes NULL, TRUE or FALSE", _shown(asked))


def _between(node: exp.Expression) -> Condition:
    return test(_name(node.this), "BETWEEN", (_value(node.args["low"]), _value(node.args["high"])))


def _like(node: exp.Expression) -> Condition:
    from sqlglot import exp

    escape: Hole | None = None
    if isinstance(node, exp.Escape):
        escape = _value(node.expression)
        node = node.this
        if not isinstance(escape, Hole):
            raise _Refused("ESCAPE takes one character")
        _only_known_arguments(node)
        if not isinstance(node, exp.Like):
            raise _Refused("ESCAPE belongs to LIKE", _shown(node))
    pattern = _value(node.expression)
    if escape is not None and isinstance(pattern, Hole):
        pattern = Hole(pattern.index, str(escape.index))
    made: Condition = test(_name(node.this), "LIKE", (pattern,))
    return Not(made) if node.args.get("negate") else made


__all__ = ["MAX_NESTING", "Predicate", "lex", "parse", "parse_clauses"]
