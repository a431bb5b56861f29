"""From a condition to clauses: an OR of ANDs, grouped by attribute.

NOT is pushed down to the predicates under three-valued logic. What a subtree is wanted to be is a *mode*:

    TRUE   FALSE   NOT_TRUE (false or unknown)   NOT_FALSE (true or unknown)

AND wanted TRUE needs all parts TRUE; wanted FALSE needs some part FALSE; NOT_TRUE some part NOT_TRUE; NOT_FALSE
all parts NOT_FALSE; OR the other way round; NOT swaps TRUE with FALSE and NOT_TRUE with NOT_FALSE; IS TRUE
makes NOT_TRUE out of FALSE. So every leaf ends as (predicate, mode), which is a plain set of keys.

A clause maps each attribute to its atoms; an atom is a leaf, or ANDs and ORs of leaves on that one attribute
(an OR over one attribute is a set of intervals, not several clauses). Nothing is absorbed or simplified beyond
that, because it could change a score; only a clause with a constant FALSE or NULL in it is dropped.

The expansion multiplies: `(a OR b) AND (c OR d) AND …` doubles the clauses with every part, and each clause repeats the
values of its predicates, so a list of a million characters could become gigabytes of intervals. Clauses and values are
therefore counted before anything is expanded.

**Complexity**: O(text) to count; O(clauses x atoms per clause) to expand, both bounded.
"""

from __future__ import annotations

from itertools import chain, product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from earmark.errors import SubscriptionError
from earmark.language.predicate import AllOf, And, AnyOf, Atom, Condition, Constant, Is, Leaf, Mode, Not, Or, Predicate

MAX_CLAUSES = 1024
MAX_VALUES = 1 << 19  # of all clauses together; more than any text holds, so that only what is repeated is refused
_MAX_ATOMS = 1 << 18  # of all clauses together


def too_many_clauses() -> SubscriptionError:
    """There would be more than MAX_CLAUSES clauses, or too many predicates in them."""
    return SubscriptionError(f"its ORs make more than {MAX_CLAUSES:,} clauses; split it into several subscriptions")


def too_many_values() -> SubscriptionError:
    """There would be more than MAX_VALUES literal values in the clauses."""
    return SubscriptionError(
        f"its ORs repeat its values, to more than {MAX_VALUES:,} in all clauses;"
        " split it into several subscriptions, or use shorter lists"
    )


_NEGATED = {Mode.TRUE: Mode.FALSE, Mode.FALSE: Mode.TRUE, Mode.NOT_TRUE: Mode.NOT_FALSE, Mode.NOT_FALSE: Mode.NOT_TRUE}
_IS_TRUE = {Mode.TRUE: Mode.TRUE, Mode.FALSE: Mode.NOT_TRUE, Mode.NOT_TRUE: Mode.NOT_TRUE, Mode.NOT_FALSE: Mode.TRUE}


Clause: TypeAlias = tuple[tuple[str, tuple[Atom, ...]], ...]
Clauses: TypeAlias = tuple[Clause, ...]


def normal_form(condition: Condition) -> Clauses:
    """The clauses of a condition; raises SubscriptionError beyond MAX_CLAUSES or MAX_VALUES."""
    tree = _with_atoms(_pushed(condition, Mode.TRUE))
    _extent(tree)
    return tuple(_grouped(atoms) for atoms in _product(tree))


# --- NOT pushed down: a tree of Leaf, bool, and ("and" | "or", parts) -------------------------------------------

_Pushed: TypeAlias = "Leaf | bool | tuple[str, list[Any]]"


def _pushed(node: Condition, mode: Mode) -> _Pushed:
    match node:
        case Predicate():
            inner = node.positive()
            return _pushed(inner, mode) if isinstance(inner, Not) else Leaf(node, mode)
        case Not(part):
            return _pushed(part, _NEGATED[mode])
        case Is(part, truth):
            wanted = _IS_TRUE[mode]
            return _pushed(part, wanted if truth else _NEGATED[wanted])
        case Constant(truth):
            return (truth is True, truth is False, truth is not True, truth is not False)[mode]
        case And(parts) | Or(parts):
            conjunction = isinstance(node, And) == (mode in (Mode.TRUE, Mode.NOT_FALSE))
            return _joined("and" if conjunction else "or", [_pushed(p, mode) for p in parts])
    raise TypeError(f"{node!r} is not a condition")


def _joined(kind: str, parts: list[Any]) -> _Pushed:
    """Nested joins of one kind become one, and a join of one part is that part."""
    flat: list[Any] = []
    for part in parts:
        flat.extend(part[1] if isinstance(part, tuple) and part[0] == kind else [part])
    return flat[0] if len(flat) == 1 else (kind, flat)


# --- to an OR of ANDs ---------------------------------------------------------------------------------------


class _Extent(NamedTuple):
    """How much a part expands to; its atoms and values are those of all its clauses together."""

    clauses: int
    atoms: int
    values: int


def _with_atoms(node: _Pushed) -> Any:
    """The same tree, with the parts of each OR that are on one attribute as one atom."""
    if not isinstance(node, tuple):
        return node
    kind, parts = node
    if kind == "or":
        parts = _grouped_parts(parts)
    return kind, [_with_atoms(part) for part in parts]


def _extent(node: Any) -> _Extent:
    """How much a tree expands to; raises SubscriptionError. O(tree): nothing is expanded."""
    if isinstance(node, bool):
        return _Extent(int(node), 0, 0)
    if not isinstance(node, tuple):
        return _Extent(1, 1, _count_values(node))
    kind, parts = node
    extents = [_extent(part) for part in parts]
    if kind == "or":
        total = _Extent(*(sum(column) for column in zip(*extents, strict=True)))
    else:
        clauses = prod(extent.clauses for extent in extents)
        times = [clauses // one.clauses if 0 < clauses <= MAX_CLAUSES else 0 for one in extents]
        atoms = sum(n * one.atoms for n, one in zip(times, extents, strict=True))
        total = _Extent(clauses, atoms, sum(n * one.values for n, one in zip(times, extents, strict=True)))
    if total.clauses > MAX_CLAUSES or total.atoms > _MAX_ATOMS:
        raise too_many_clauses()
    if total.values > MAX_VALUES:
        raise too_many_values()
    return total


def _count_values(atom: Atom) -> int:
    """The literals of an atom; a predicate without any counts as one."""
    if isinstance(atom, Leaf):
        return max(1, len(atom.predicate.values))
    return sum(map(_count_values, atom.parts))


def _product(node: Any) -> list[list[Atom]]:
    """The clauses as lists of atoms; O(atoms of the result)."""
    if isinstance(node, bool):
        return [[]] if node else []
    if not isinstance(node, tuple):
        return [[node]]
    kind, parts = node
    factors = [_product(part) for part in parts]
    if kind == "or":
        return [clause for factor in factors for clause in factor]
    return [list(chain.from_iterable(chosen)) for chosen in product(*factors)]


def _grouped_parts(parts: list[Any]) -> list[Any]:
    """Parts of an OR on the same single attribute become one atom, where the first of them stood."""
    groups: dict[object, list[Any]] = {}
    for i, part in enumerate(parts):
        name = _only_attribute(part)
        groups.setdefault(i if name is None else name, []).append(part)
    return [group[0] if len(group) == 1 else AnyOf(tuple(_atom(p) for p in group)) for group in groups.values()]


def _only_attribute(node: _Pushed) -> str | None:
    """The one attribute that a part is about; None when there are several, or constants."""
    if isinstance(node, Leaf):
        return node.predicate.attribute
    if isinstance(node, bool):
        return None
    names = {_only_attribute(part) for part in node[1]}
    return names.pop() if len(names) == 1 else None


def _atom(node: Any) -> Atom:
    if isinstance(node, Leaf):
        return node
    kind, parts = node
    return (AnyOf if kind == "or" else AllOf)(tuple(_atom(p) for p in parts))


def _grouped(atoms: list[Atom]) -> Clause:
    by_name: dict[str, list[Atom]] = {}
    for atom in atoms:
        by_name.setdefault(attribute_of(atom), []).append(atom)
    return tuple((name, tuple(group)) for name, group in by_name.items())


def attribute_of(atom: Atom) -> str:
    """The attribute an atom is about."""
    while not isinstance(atom, Leaf):
        atom = atom.parts[0]
    return atom.predicate.attribute
