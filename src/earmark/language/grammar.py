"""From tokens to a condition with holes: the grammar.

sqlglot (Spark dialect) is the grammar; it is not the validator, and it never sees a name or a literal. Its tree is
walked by a whitelist of nodes *and their arguments*, and everything else is refused. Stand-ins for names and literals
are numbered, so every node leads back to its place in the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from earmark.errors import SubscriptionError, shortened
from earmark.language import predicate as p
from earmark.language.predicate import And, Condition, Constant, Is, Not, Or, Predicate
from earmark.language.refusals import NO_CALCULATIONS, Refuse, raised, refusal
from earmark.language.tokens import FIRST_HOLE, FIRST_LIST, Hole, Lexed

_STAND_IN = re.compile(r"n(\d+)")
_A_NAME = "expected an attribute's name to compare with a literal"


_SPARK: Any = Spark()
_PAIR = frozenset({"this", "expression"})
_OPERATORS: dict[type, tuple[str, str]] = {  # of a node, and what it becomes when the literal comes first
    exp.EQ: ("=", "="),
    exp.NEQ: ("!=", "!="),
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), ("<=>", "<=>")),
}
_ARGUMENTS: dict[type, frozenset[str]] = {
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape, exp.Dot, *_OPERATORS), _PAIR),
    **dict.fromkeys((exp.Not, exp.Paren, exp.Boolean, exp.Neg), frozenset({"this"})),
    exp.Null: frozenset(),
    exp.Column: frozenset({"this", "table", "db", "catalog"}),
    exp.Identifier: frozenset({"this", "quoted"}),
    exp.Between: frozenset({"this", "low", "high"}),
    exp.In: frozenset({"this", "expressions"}),
    exp.Like: _PAIR | {"negate"},
    exp.Literal: frozenset({"this", "is_string"}),
}
_HINTS = {
    "Alias": "expected AND, OR or the end of the condition",
    "Concat": "expected one string, got two side by side",
    "Tuple": "a list of values goes after IN only",
    **dict.fromkeys(("Add", "Sub", "Neg"), NO_CALCULATIONS),
}
_BEFORE_CONSTANT = frozenset({"comparison", "IS", "NOT", "DISTINCT", "FROM", "LIKE"})  # constants have no stand-in
Span: TypeAlias = tuple[int, int]


def _tree(shape: str) -> exp.Expression | Exception:
    """sqlglot's tree of a shape, or what it threw."""
    try:
        parsed = _SPARK.parse(shape)
    except Exception as problem:  # ParseError, but also IndexError, TypeError, RecursionError, …
        return problem
    return parsed[0] if len(parsed) == 1 and parsed[0] is not None else ValueError("not one condition")


class Grammar:
    """The condition of one text, with Holes for its literals: a walk over sqlglot's tree that knows every node.

    Refusals go to `refuse`; where it returns, the refused part counts as TRUE and the walk goes on.
    """

    def __init__(self, lexed: Lexed, refuse: Refuse = raised) -> None:
        self._lexed = lexed
        self._refuse = refuse
        self._nodes: dict[int, tuple[Predicate, exp.Expression]] = {}

    def condition(self) -> Condition:
        """All of the text; raises SubscriptionError where sqlglot cannot read it."""
        tree = _tree(self._lexed.shape)
        if isinstance(tree, RecursionError):
            with ThreadPoolExecutor(1) as fresh:  # the caller has used up the stack; a thread begins with an empty one
                tree = fresh.submit(_tree, self._lexed.shape).result()
        if isinstance(tree, Exception):
            raise self._ungrammatical(tree)
        made = self._part(tree)
        if made == Constant(None):  # Spark refuses a WHERE that is nothing but NULL
            self._refuse(refusal("NULL alone is not a condition", "", 0, len(self._lexed.text)))
        return made

    def predicates(self) -> list[Predicate]:
        """The predicates of the condition, in the order of the text."""
        return sorted((predicate for predicate, _ in self._nodes.values()), key=self.place)

    def place(self, predicate: Predicate) -> Span:
        """Where a predicate of the condition is in the text."""
        span = self._span(self._nodes[id(predicate)][1])
        if span is None:
            return 0, len(self._lexed.text)
        start, end = span
        kinds, spans = self._lexed.kinds, self._lexed.spans
        i = bisect_right(spans, end - 1, key=lambda token: token[0])
        while i < len(kinds) and kinds[i] in _BEFORE_CONSTANT:
            i += 1
        return start, spans[i][1] if i < len(kinds) and kinds[i] == "constant" else end

    # --- conditions ---

    def _part(self, node: exp.Expression) -> Condition:
        """The condition of a node; refused, it counts as TRUE."""
        try:
            return self._convert(node)
        except SubscriptionError as problem:
            self._refuse(problem)
            return Constant(True)

    def _test(self, node: exp.Expression, name: str, operator: str, values: tuple[Any, ...]) -> Predicate:
        made = p.test(name, operator, values)
        self._nodes[id(made)] = made, node
        return made

    def _convert(self, node: exp.Expression) -> Condition:
        self._check_arguments(node)
        if isinstance(node, exp.And | exp.Or):
            return self._chain(node)
        if isinstance(node, exp.Not):
            return Not(self._part(node.this))
        if isinstance(node, exp.Paren):
            return self._part(node.this)
        if isinstance(node, exp.Boolean):
            return Constant(bool(node.this))
        if isinstance(node, exp.Null):
            return Constant(None)
        if isinstance(node, exp.Column | exp.Dot):
            return self._test(node, self._name(node), "=", (True,))
        if isinstance(node, exp.Is):
            return self._is(node)
        if isinstance(node, exp.Between):
            low, high = self._value(node.args["low"]), self._value(node.args["high"])
            return self._test(node, self._name(node.this), "BETWEEN", (low, high))
        if isinstance(node, exp.In):
            return self._in(node)
        if isinstance(node, exp.Like | exp.Escape):
            return self._like(node)
        return self._comparison(node)

    def _chain(self, node: exp.Expression) -> Condition:
        """A chain of ANDs (or ORs) of any length, without recursion along it."""
        kind = type(node)
        parts: list[Condition] = []
        while type(node) is kind:
            self._check_arguments(node)
            parts.append(self._part(node.expression))
            node = node.this
        parts.append(self._part(node))
        parts.reverse()
        return p.joined(And if kind is exp.And else Or, parts)

    def _comparison(self, node: exp.Expression) -> Condition:
        if type(node) not in _OPERATORS:
            raise self._refused("expected a condition, got a literal alone: compare an attribute with it", node)
        left, right = node.this, node.expression
        plain, flipped = _OPERATORS[type(node)]
        if _is_literal(left) and not _is_literal(right):
            made = self._test(node, self._name(right), flipped, (self._value(left),))
        else:
            made = self._test(node, self._name(left), plain, (self._value(right),))
        return Not(made) if isinstance(node, exp.NullSafeNEQ) else made

    def _is(self, node: exp.Expression) -> Condition:
        asked = node.expression
        if isinstance(asked, exp.Null):
            return self._test(node, self._name(node.this), "IS NULL", ())
        if not isinstance(asked, exp.Boolean):
            raise self._refused("expected NULL, TRUE or FALSE after IS", asked)
        if isinstance(node.this, exp.In | exp.Like | exp.Between | exp.Is | exp.Not | exp.Escape):
            raise self._refused("put the operand of IS in parentheses", node)
        return Is(self._part(node.this), bool(asked.this))

    def _in(self, node: exp.Expression) -> Condition:
        name, values = self._name(node.this), node.expressions
        if not values:
            raise self._refused("expected a list of values in parentheses after IN", node)
        if len(values) == 1 and isinstance(values[0], exp.Literal) and str(values[0].this).startswith("8"):
            return self._test(node, name, "IN", (Hole(int(values[0].this) - FIRST_LIST),))
        return self._test(node, name, "IN", tuple(self._value(value) for value in values))

    def _like(self, node: exp.Expression) -> Condition:
        escape, whole = None, node
        if isinstance(node, exp.Escape):
            escape = self._value(node.expression)
            if not self._is_text(escape):
                raise self._refused("expected one character in quotes after ESCAPE", node.expression)
            node = node.this
            self._check_arguments(node)
            if not isinstance(node, exp.Like):
                raise self._refused("ESCAPE goes with LIKE only", node)
        pattern = self._value(node.expression)
        if pattern is not None and not self._is_text(pattern):
            raise self._refused("expected a pattern such as 'prefix%' after LIKE", node.expression)
        if escape is not None and pattern is not None:
            pattern = Hole(pattern.index, "escaped", escape.index)
        made = self._test(whole, self._name(node.this), "LIKE", (pattern,))
        return Not(made) if node.args.get("negate") else made

    def _is_text(self, value: Any) -> bool:
        return isinstance(value, Hole) and self._lexed.slots[value.index].kind == "string"

    # --- names and values ---

    def _name(self, node: exp.Expression) -> str:
        node = self._bare(node)
        name = self._joined_name(node)
        if len(name) > p.MAX_NAME:
            raise self._refused(f"a name has at most {p.MAX_NAME:,} characters", node)
        if not name.isascii():
            try:
                p.check_text(name, f"the name {shortened(name, 60)!r}")
            except SubscriptionError as problem:
                raise self._refused(problem.reason, node) from None
        return name

    def _joined_name(self, node: exp.Expression) -> str:
        """The parts of a name with dots between them; the tokens have bounded how many there are."""
        self._check_arguments(node)
        if isinstance(node, exp.Dot):
            return f"{self._joined_name(node.this)}.{self._identifier(node.expression)}"
        if not isinstance(node, exp.Column):
            shown = self._shown(node)
            hint = ""
            if shown.startswith('"'):
                hint = "; double quotes make it a string, backticks make it a name"
            elif type(node) in _OPERATORS:
                hint = "; join two comparisons with AND"
            raise self._refused(f"{_A_NAME}, got {shortened(shown, 60)}{hint}", node)
        parts = [node.args.get(part) for part in ("catalog", "db", "table", "this")]
        return ".".join(self._identifier(part) for part in parts if part is not None)

    def _identifier(self, node: exp.Expression) -> str:
        self._check_arguments(node)
        found = _STAND_IN.fullmatch(node.this) if isinstance(node, exp.Identifier) else None
        if found is None:  # sqlglot takes some keywords for names, too
            raise self._refused("expected a name", node)
        return self._lexed.names[int(found[1])]

    def _value(self, node: exp.Expression) -> Any:
        """The hole or constant in the place of a literal."""
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
            shown = shortened(self._shown(node), 60)
            raise self._refused(
                f"expected a literal, got the attribute {shown}: an attribute is compared with literals,"
                " not with another attribute; a string goes in quotes",
                node,
            )
        raise self._refused("expected a literal", node)

    def _hole(self, literal: exp.Expression, form: str = "value") -> Hole:
        found = re.fullmatch(r"\d{9}", literal.this)
        if found is None:  # sqlglot joins a dot and a number that are apart
            raise self._refused("expected a literal", literal)
        if int(found[0]) < FIRST_HOLE:
            raise self._refused("a list of values goes after IN only", literal)
        return Hole(int(found[0]) - FIRST_HOLE, form)

    def _bare(self, node: exp.Expression) -> exp.Expression:
        """What is inside parentheses."""
        while isinstance(node, exp.Paren):
            self._check_arguments(node)
            node = node.this
        return node

    # --- refusals ---

    def _check_arguments(self, node: exp.Expression) -> None:
        """Every node and every argument of it is known, or it is refused."""
        known = _ARGUMENTS.get(type(node))
        if known is None or any(v not in (None, False, []) for k, v in node.args.items() if k not in known):
            shown = node.args["alias"] if type(node).__name__ == "Alias" else node
            raise self._refused(_HINTS.get(type(node).__name__, "this is not part of the language"), shown)

    def _refused(self, reason: str, node: exp.Expression) -> SubscriptionError:
        return refusal(reason, self._shown(node), *(self._span(node) or (None, None)))

    def _shown(self, node: exp.Expression) -> str:
        """A node as the user wrote it."""
        if span := self._span(node):
            return self._lexed.text[slice(*span)]
        try:
            return str(node.sql(dialect="spark"))  # constants, which have no stand-in
        except Exception:  # as with parsing, anything may come out; the reason is given without the piece
            return ""

    def _span(self, node: exp.Expression) -> Span | None:
        """From the first to the last name or literal of a node; None when it has none."""
        spans: list[Span] = []
        for part in node.find_all(exp.Identifier, exp.Literal):
            if isinstance(part, exp.Identifier):
                if found := _STAND_IN.fullmatch(part.this):
                    spans.append(self._lexed.name_spans[int(found[1])])
            elif re.fullmatch(r"\d{9}", part.this):
                spans.append(self._token_at(self._lexed.slots[int(part.this) % 10**8].start))
        if not spans:
            return None
        start, end = min(start for start, _ in spans), max(end for _, end in spans)
        return self._with_parentheses(start, end) if isinstance(node, exp.Tuple) else (start, end)

    def _with_parentheses(self, start: int, end: int) -> Span:
        """A piece of the text together with the tokens before and after it."""
        spans = self._lexed.spans
        first = bisect_left(spans, start, key=lambda span: span[0])
        last = bisect_left(spans, end, key=lambda span: span[1])
        return spans[max(first - 1, 0)][0], spans[min(last + 1, len(spans) - 1)][1]

    def _token_at(self, start: int) -> Span:
        """The token around this place: of a literal with DATE or CAST, all of it."""
        return self._lexed.spans[bisect_right(self._lexed.spans, start, key=lambda span: span[0]) - 1]

    def _ungrammatical(self, problem: Exception) -> SubscriptionError:
        """Where sqlglot stopped, in terms of the text."""
        details = (getattr(problem, "errors", None) or [{}])[0]
        if isinstance(problem, RecursionError) or not details.get("col"):
            return refusal("it does not read as a condition", "", 0, len(self._lexed.text))
        lexed = self._lexed
        i = min(bisect_left(lexed.ends, details["col"]), len(lexed.spans) - 1)
        start, end = lexed.spans[i]
        piece = lexed.text[start:end]
        if "nexpected" in str(details.get("description")):
            return refusal(
                f"expected AND, OR or the end of the condition, got {shortened(piece, 60)!r}", piece, start, end
            )
        if i == len(lexed.spans) - 1:
            return refusal(f"it ends too early, after {shortened(piece, 60)!r}", piece, start, end)
        return refusal(f"something is missing or wrong after {shortened(piece, 60)!r}", piece, start, end)


def _is_literal(node: exp.Expression) -> bool:
    return isinstance(node.unnest(), exp.Literal | exp.Neg | exp.Boolean | exp.Null)
