"""May these tokens follow each other? Spark's rules, where sqlglot is generous.

sqlglot reads `a NOT IS TRUE`, `a BETWEEN 1 2`, `a IN (, 3)`, `OR (b)` and more that Spark refuses. Two rules keep
them out, in one pass over the tokens:

    pairs       what each kind of token may be followed by (FOLLOW)
    predicates  between AND, OR and the parentheses around it there is at most one of IS, IN, BETWEEN and LIKE, and
                no comparison after it; and a BETWEEN has its AND

What passes still has to be a condition: that is sqlglot's and the parser's to say.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from earmark.language.refusals import NO_CALCULATIONS

COMPARISONS = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"})
START, END = "start", "end"

_VALUE = frozenset("number string typed constant - + ( name".split())
_JOINED = frozenset({"AND", "OR", ")", END})
_PREDICATE = frozenset({"IS", "IN", "BETWEEN", "LIKE"})

_A_VALUE = "a value"
_AN_END = "AND, OR or the end"
_NULL_TRUE_FALSE = "NULL, TRUE or FALSE"
_AFTER_NAME = _JOINED | _PREDICATE | {"comparison", "NOT", ",", "."}
_RULES: tuple[tuple[tuple[str, ...], Set[str], str], ...] = (  # kinds, what may follow them, and what to call that
    ((START, "(", "AND", "OR", "NOT"), _VALUE | {"NOT"}, "a condition"),
    (("comparison", "BETWEEN", "AND of BETWEEN", "FROM", ","), _VALUE, _A_VALUE),
    (("LIKE",), _VALUE, "a pattern such as 'prefix%'"),
    (("name",), _AFTER_NAME, "an operator such as =, <, IN, LIKE or IS NULL"),
    ((")",), _AFTER_NAME, _AN_END),
    (("string",), _JOINED | {"comparison", ",", "ESCAPE"}, _AN_END),
    (("number", "typed"), _JOINED | {"comparison", ","}, _AN_END),
    (("constant",), _JOINED | {"comparison", ",", "IS"}, _AN_END),
    (("list",), _JOINED, _AN_END),
    (("IN",), {"list", "("}, "a list of values in parentheses"),
    (("IS",), {"NOT", "constant", "DISTINCT"}, _NULL_TRUE_FALSE),
    (("IS NOT",), {"constant", "DISTINCT"}, _NULL_TRUE_FALSE),
    (("infix NOT",), {"IN", "BETWEEN", "LIKE"}, "IN, BETWEEN or LIKE"),
    (("DISTINCT",), {"FROM"}, "FROM"),
    (("ESCAPE",), {"string"}, "one character in quotes"),
    (("-", "+"), {"number"}, "a number"),
    ((".",), {"name"}, "a name"),
)
FOLLOW = {kind: following for kinds, following, _ in _RULES for kind in kinds}
EXPECTED = {kind: expected for kinds, _, expected in _RULES for kind in kinds}


class Misplaced(NamedTuple):
    """The first token that is out of place (their number, for the end), what was expected there, and why if not."""

    at: int
    expected: str
    reason: str = ""


@dataclass(slots=True)
class _Level:
    """Where we are between two parentheses: what a closing one counts as, what the current part has had."""

    closes_as: str
    predicate: bool = False
    between: bool = False

    def misplaced(self, kind: str) -> str:
        """Take the next token; the reason why it cannot be here, or nothing."""
        if self.predicate and (kind in _PREDICATE or kind in ("infix NOT", "comparison")):
            return "expected AND, OR or parentheses: a part of a condition has one test"
        if self.between and kind in ("OR", ")", END):
            return "expected two values with AND between them after BETWEEN"
        if kind in _PREDICATE:
            self.predicate, self.between = True, kind == "BETWEEN"
        elif kind == "AND of BETWEEN":
            self.between = False
        elif kind in ("AND", "OR"):
            self.predicate = False
        return ""


def misplaced(kinds: list[str]) -> Misplaced | None:
    """The first token that is out of place; O(tokens)."""
    levels = [_Level(START)]
    before = START
    for i, given in enumerate([*kinds, END]):
        if given not in FOLLOW[before]:
            in_list = before == "(" and levels[-1].closes_as == "list"
            return Misplaced(i, _A_VALUE if in_list else EXPECTED[before], _reason(before, given))
        kind = given
        if given == "NOT" and before in ("name", ")"):
            kind = "infix NOT"
        elif given == "NOT" and before == "IS":
            kind = "IS NOT"
        elif given == "AND" and levels[-1].between:
            kind = "AND of BETWEEN"
        if problem := levels[-1].misplaced(kind):
            return Misplaced(i, EXPECTED[before], problem)
        if kind == "(":
            levels.append(_Level("list" if before == "IN" else ")"))
        elif kind == ")":
            if len(levels) == 1:
                return Misplaced(i, _AN_END, "there is no '(' for this ')'")
            kind = levels.pop().closes_as
        before = kind
    return Misplaced(len(kinds), "')'", "a '(' is not closed: expected ')'") if len(levels) > 1 else None


def _reason(before: str, kind: str) -> str:
    """Why this pair is refused, where "expected X, got Y" does not say enough."""
    if kind in ("-", "+") and before not in ("-", "+", "IN", "IS", "IS NOT"):
        return NO_CALCULATIONS
    if before == kind == "string":
        return "expected one string, got two side by side"
    if kind == "list" and before != "IN":
        return "a list of values goes after IN only"
    if kind == "IS":
        return "put the operand of IS in parentheses"
    if before == "IS" and kind in ("number", "string", "typed", "name", "(", "-"):
        return f"expected {_NULL_TRUE_FALSE} after IS: compare with other values by ="
    return ""
