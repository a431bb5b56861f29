"""May these tokens follow each other? Spark's rules, where sqlglot is generous.

sqlglot reads `a NOT IS TRUE`, `a BETWEEN 1 2`, `a IN (, 3)`, `OR (b)` and more that Spark refuses. Two rules keep
them out, in one pass over the tokens:

    pairs       what each kind of token may be followed by (FOLLOW)
    predicates  between AND, OR and the parentheses around it there is at most one of IS, IN, BETWEEN and LIKE, and
                no comparison after it; and a BETWEEN has its AND

What passes still has to be a condition: that is sqlglot's and the parser's to say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

COMPARISONS = frozenset({"=", "==", "!=", "<>", "<", "<=", ">", ">=", "<=>"})
START, END = "start", "end"

_VALUE = frozenset("number string typed constant - + ( name".split())
_CONDITION = _VALUE | {"NOT"}
_JOINED = frozenset({"AND", "OR", ")", END})
_PREDICATE = frozenset({"IS", "IN", "BETWEEN", "LIKE"})

FOLLOW: dict[str, frozenset[str]] = {
    **dict.fromkeys((START, "(", "AND", "OR", "NOT"), _CONDITION),
    **dict.fromkeys(("comparison", "BETWEEN", "LIKE", "FROM", ","), _VALUE),
    **dict.fromkeys(("name", ")"), _JOINED | _PREDICATE | {"comparison", "NOT", ",", "."}),
    "string": _JOINED | {"comparison", ",", "ESCAPE"},
    **dict.fromkeys(("number", "typed"), _JOINED | {"comparison", ","}),
    "constant": _JOINED | {"comparison", ",", "IS"},
    "list": _JOINED,
    "IN": frozenset({"list", "("}),
    "IS": frozenset({"NOT", "constant", "DISTINCT"}),
    "IS NOT": frozenset({"constant", "DISTINCT"}),
    "infix NOT": frozenset({"IN", "BETWEEN", "LIKE"}),
    "DISTINCT": frozenset({"FROM"}),
    "ESCAPE": frozenset({"string"}),
    **dict.fromkeys(("-", "+"), frozenset({"number"})),
    ".": frozenset({"name"}),
}


class Misplaced(NamedTuple):
    """The first token that cannot stand where it does (their number, for the end), and why."""

    at: int
    reason: str


@dataclass(slots=True)
class _Level:
    """Where we are between two parentheses: what a closing one counts as, what the current part has had."""

    closes_as: str
    predicate: bool = False
    between: bool = False

    def misplaced(self, kind: str) -> str:
        """Take the next token; why it cannot stand here, or nothing."""
        if self.predicate and (kind in _PREDICATE or kind in ("infix NOT", "comparison")):
            return "a part of a condition has one test: AND, OR or parentheses were expected"
        if self.between and kind in ("OR", ")", END):
            return "BETWEEN takes two values with AND between them"
        if kind in _PREDICATE:
            self.predicate, self.between = True, kind == "BETWEEN"
        elif kind == "AND" and self.between:
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
            return Misplaced(i, _reason(before, given))
        kind = given
        if given == "NOT" and before in ("name", ")"):
            kind = "infix NOT"
        elif given == "NOT" and before == "IS":
            kind = "IS NOT"
        if problem := levels[-1].misplaced(kind):
            return Misplaced(i, problem)
        if kind == "(":
            levels.append(_Level("list" if before == "IN" else ")"))
        elif kind == ")":
            if len(levels) == 1:
                return Misplaced(i, "there is no '(' for this")
            kind = levels.pop().closes_as
        before = kind
    return Misplaced(len(kinds), "a '(' is not closed") if len(levels) > 1 else None


def _reason(before: str, kind: str) -> str:
    if kind == END:
        return "it ends too early"
    if kind in ("-", "+") and before not in ("-", "+"):
        return "calculations are not part of a condition"
    if before == kind == "string":
        return "two strings stand side by side"
    if before == "," or (before == "(" and kind == ")"):
        return "a value is missing before this"
    if kind == "list":
        return "a list of values stands after IN only"
    if before == "IN":
        return "IN takes a list of values in parentheses"
    if before == "IS":
        return "IS takes NULL, TRUE, FALSE or NOT"
    if kind == "IS":
        return "what IS is asked of stands in parentheses"
    return ""
