"""How subscriptions enter the table: everything is checked first, then everything is written.

prepared = prepare(table, subscriptions)      may raise; the table is untouched
block = admit(table, prepared)                cannot fail on what the user gave
table.append(block)
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from earmark.errors import EarmarkError, reworded
from earmark.model.attribute import Draft, Schema
from earmark.model.bind import Binder, BoundClauses
from earmark.model.rows import block_of
from earmark.model.subscription import (
    as_subscription,
    check_new_ids,
    checked_id,
    checked_score,
    checked_tags,
    clauses_and_text,
    used_weights,
)
from earmark.model.table import Block, Id, Table, Tags


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch that has passed every check. `build` makes the block once strings have their keys."""

    draft: Draft
    ids: list[Id]
    build: Callable[[Schema], Block]


def prepare(table: Table, items: Iterable[Any], replacing: bool = False) -> Prepared:
    """Check subscriptions one by one; an error names the row. With `replacing`, their ids may be in use."""
    draft = Draft(table.schema)
    binder = Binder(draft)
    ids: list[Id] = []
    asked: list[str] = []
    rows: list[BoundClauses] = []
    weights: list[dict[int, float] | None] = []
    scores: list[float] = []
    tags: list[Tags] = []
    with collector_held():
        for row, item in enumerate(items):
            try:
                given = as_subscription(item)
                one = checked_id(given.id)
                clauses, text = clauses_and_text(given.condition)
                own = used_weights(given.weights, clauses)
                rows.append(binder.bind(clauses, one))
                weights.append({draft.get(name).number: w for name, w in own.items()} if own else None)
                scores.append(checked_score(given.score))
                tags.append(checked_tags(given.tags))
            except EarmarkError as problem:
                raise _named(problem, row, item) from None
            ids.append(one)
            asked.append(text)
    check_new_ids(ids, {} if replacing else table.slot_of, type(table.ids[0]) if table.ids else None)

    def build(schema: Schema) -> Block:
        return Block(block_of(rows, weights, scores, schema), ids, asked, tags if any(tags) else None)

    return Prepared(draft, ids, build)


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold back the cyclic garbage collector: a batch makes many objects that stay, and no cycles among them.

    It would look through all of them again and again, a fifth of the time that a large batch takes.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _named(problem: EarmarkError, row: int, item: Any) -> EarmarkError:
    """The same problem, told of its row."""
    one = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    if one is None and isinstance(item, tuple | list) and item:
        one = item[0]
    prefix = f"row {row}" if one is None else f"row {row}, subscription {one!r}"
    return reworded(problem, f"{prefix}: {str(problem).removeprefix(f'subscription {one!r}: ')}")


def admit(table: Table, prepared: Prepared) -> Block:
    """Write attributes and string constants into the table's schema, and encode the batch."""
    prepared.draft.commit()
    table.give_keys(prepared.draft.constants)
    return prepared.build(table.schema)


def rows_of_frame(table: Any) -> Iterator[dict[str, Any]]:
    """The rows of an Arrow table with a `condition` column, as mappings."""
    names = [n for n in ("id", "condition", "weights", "score", "tags") if n in table.column_names]
    for batch in table.select(names).to_batches(max_chunksize=10_000):
        for row in batch.to_pylist():
            for name in ("weights", "tags"):
                if row.get(name) is not None:
                    row[name] = as_mapping(row[name])
            yield row


def as_mapping(value: Any) -> Any:
    """An Arrow map (pairs) or struct (absent fields are None) as a dict; anything else is left for the checks."""
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if v is not None}
    pairs = isinstance(value, list) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in value)
    return dict(value) if pairs else value


def without_row(problem: EarmarkError) -> EarmarkError:
    """What is wrong with a batch of one, said without its row."""
    return reworded(problem, str(problem).removeprefix("row 0, ").removeprefix("row 0: "))
