"""Another type for an attribute: every condition that uses it is bound again, from what was asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from earmark.errors import AttributeTypeError, EarmarkError
from earmark.flat.types import I64
from earmark.keys.schema import attribute_type
from earmark.keys.strings import StringKeys
from earmark.language.nearest import did_you_mean
from earmark.segment.intake import admitted, prepare
from earmark.segment.plain import subscription_at
from earmark.segment.table import Table


def retyped(table: Table, name: str, type_name: str) -> Table:
    """The table as if an attribute had been declared with this type from the start; an error names who disagrees."""
    attribute = table.schema.by_name.get(name)
    if attribute is None:
        raise EarmarkError(f"there is no attribute {name!r}{did_you_mean(str(name), table.schema.names)}")
    type_ = attribute_type(type_name)
    slots = _users(table, attribute.number)
    rest = table.removed(slots)
    changed = replace(attribute, type=type_, declared=True, origin="its declaration")
    # the other attributes keep their types, also where nobody else uses them: what was asked means what it meant
    kept = [a for a in table.schema if a != rest.schema.by_name[a.name] and a.number != attribute.number]
    keys = {a.number: table.schema.strings[a.number] for a in kept if a.number in table.schema.strings}
    keys |= {attribute.number: StringKeys()} if type_.keyed else {}
    rest = rest.with_schema(rest.schema.replaced([*kept, changed], keys))
    items = [subscription_at(table, slot) for slot in slots.tolist()]
    try:
        prepared = prepare(rest, items, numbered=False)
    except EarmarkError as problem:
        wrong = problem.problems or (problem,)
        raise AttributeTypeError(f"attribute {name!r} cannot become {type_}", attribute=name, problems=wrong) from None
    return admitted(rest, prepared, table.arrays.sequence[slots])


def _users(table: Table, number: int) -> I64:
    """The living slots that constrain an attribute, in order of insertion."""
    constraints = np.flatnonzero(table.arrays.attr == number)
    clauses = np.searchsorted(table.arrays.constraint_start, constraints, "right") - 1
    slots = np.unique(np.searchsorted(table.arrays.clause_start, clauses, "right") - 1)
    living = slots[[table.is_live(slot) for slot in slots.tolist()]] if len(slots) else slots
    return living[np.argsort(table.arrays.sequence[living])]
