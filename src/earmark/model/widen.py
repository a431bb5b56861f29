"""What happens when an event has 22.5 for an attribute that all subscriptions so far took for an integer?

A *learned* integer attribute becomes a float, as if it had been one from the start: every constraint on it is
worked out again from what was asked (`a > 3` ends at the float just above 3, not at 4). Ready-made bounds are
closed, so their keys translate directly. Refused while some bound lies beyond 2^53, where the two types compare
differently. The table gets new arrays; views that readers hold stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from earmark.errors import AttributeTypeError
from earmark.model.arrays import I64, TableArrays
from earmark.model.attribute import FLOAT, INT64_MAX, INT64_MIN, INTEGER, Attribute, Draft, Schema, attribute_type
from earmark.model.bind import Binder, BoundClauses
from earmark.model.keys import float_keys
from earmark.model.parse import parse_clauses
from earmark.model.rows import block_of, concat, gather, intervals_on
from earmark.model.table import Table, TableView

_EXACT = 2**53


def widen(table: Table, attribute: Attribute, origin: str) -> None:
    """Make a learned integer attribute a float. O(size of the table), once an attribute."""
    assert attribute.type is not None and attribute.type.kind == INTEGER and not attribute.declared
    view = table.view()
    _refuse_beyond_exact(view, attribute, origin)
    wider = replace(attribute, type=attribute_type(FLOAT), origin=origin)
    texts = _slots_with_text(view, attribute.number)
    rows = _bound_again(table, wider, texts)
    view, schema = table.view(), table.schema.replaced(wider)
    arrays = _translated(view, wider)
    if len(texts):
        block = _block(view, schema, texts, rows)
        order = np.arange(view.slots)
        order[texts] = view.slots + np.arange(len(texts))
        arrays = gather(concat(arrays, block._replace(sequence=view.arrays.sequence[texts])), order)
    table.replace_arrays(arrays, schema)


def _refuse_beyond_exact(view: TableView, attribute: Attribute, origin: str) -> None:
    positions = intervals_on(view.arrays, attribute.number)
    lo, hi = view.arrays.lo[positions], view.arrays.hi[positions]
    inner = np.concatenate([lo[lo != INT64_MIN], hi[hi != INT64_MAX]])
    if len(inner) and (inner.max() > _EXACT or inner.min() < -_EXACT):
        raise AttributeTypeError(
            f"attribute {attribute.name!r} is {attribute.described()}, with bounds beyond 2^53 that a float cannot "
            f"hold, so it cannot take {origin}; declare it as float or decimal"
        )


def _translated(view: TableView, attribute: Attribute) -> TableArrays:
    """Every interval on the attribute as closed bounds of floats; right for ready-made rows."""
    assert attribute.type is not None
    positions = intervals_on(view.arrays, attribute.number)
    changed = {}
    for name, end, open_key in (("lo", INT64_MIN, attribute.type.low), ("hi", INT64_MAX, attribute.type.high)):
        column = getattr(view.arrays, name).copy()
        old = column[positions]
        column[positions] = np.where(old == end, open_key, float_keys(old.astype(np.float64)))
        changed[name] = column
    return view.arrays._replace(**changed)


def _slots_with_text(view: TableView, attribute: int) -> I64:
    constraints = np.flatnonzero(view.arrays.attr == attribute)
    clause_of = np.searchsorted(view.arrays.constraint_start, constraints, "right") - 1
    slots = np.unique(np.searchsorted(view.arrays.clause_start, clause_of, "right") - 1)
    return slots[view.asked_start[slots + 1] > view.asked_start[slots]]


def _bound_again(table: Table, wider: Attribute, slots: I64) -> list[BoundClauses]:
    """What these slots asked, bound under the wider type, and with keys for every string constant in it.

    A constant that no bound lies on (`s = 'a' AND s < 'b'`) may have lost its key in the meantime.
    """
    view = table.view()
    draft = Draft(table.schema.replaced(wider))
    binder = Binder(draft)
    rows = [binder.bind(parse_clauses(view.asked(slot)), view.ids[slot]) for slot in slots.tolist()]
    table.give_keys(draft.constants)
    return rows


def _block(view: TableView, schema: Schema, slots: I64, rows: list[BoundClauses]) -> TableArrays:
    weights = [weights_of(view, slot) if len(view.arrays.weight) else None for slot in slots.tolist()]
    scores = view.arrays.score[slots].tolist() if len(view.arrays.score) else [0.0] * len(slots)
    return block_of(rows, weights, scores, schema)


def weights_of(view: TableView, slot: int) -> dict[int, float]:
    """The weights of a slot's attributes, by number."""
    table = view.arrays
    first = table.constraint_start[table.clause_start[slot]]
    last = table.constraint_start[table.clause_start[slot + 1]]
    weight = table.weight[first:last].tolist() if len(table.weight) else [1.0] * int(last - first)
    return dict(zip(table.attr[first:last].tolist(), weight, strict=True))
