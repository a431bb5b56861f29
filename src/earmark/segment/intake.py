"""How subscriptions enter a table: everything is checked first, then another table is made.

prepared = prepare(table, subscriptions)      may raise
table = admitted(table, prepared)             cannot fail on what the user gave
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from earmark.errors import EarmarkError, refuse
from earmark.flat.types import I64
from earmark.keys.bind import Binder, BoundClauses
from earmark.keys.schema import Draft, Schema
from earmark.segment.rows import block_of, gather
from earmark.segment.subscription import (
    Subscription,
    as_subscription,
    check_new_ids,
    checked_id,
    checked_score,
    checked_tags,
    clauses_and_text,
    used_weights,
    weights_on,
)
from earmark.segment.table import Block, Id, Table, Tags


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A batch that has passed every check. `build` makes the block once constants have their keys."""

    draft: Draft
    ids: list[Id]
    build: Callable[[Schema], Block]


def prepare(table: Table, items: Iterable[Any], numbered: bool = True) -> Prepared:
    """Check subscriptions one by one; an error names all that cannot be added, with their rows if they are numbered."""
    draft = Draft(table.schema)
    binder = Binder(draft)
    ids: list[Id] = []
    asked: list[str] = []
    rows: list[BoundClauses] = []
    weights: list[dict[int, float] | None] = []
    scores: list[float] = []
    tags: list[Tags] = []
    wrong: list[EarmarkError] = []
    with collector_held():
        for row, item in enumerate(items):
            try:
                given = as_subscription(item)
                one = checked_id(given.id)
                clauses, text = clauses_and_text(given.condition)
                own = used_weights(given.weights, clauses)
                score, tag = checked_score(given.score), checked_tags(given.tags)
                bound = binder.bind(clauses, one)
            except EarmarkError as problem:
                wrong.append(_named(problem, row if numbered else None, item))
                continue
            rows.append(bound)
            weights.append({draft.get(name).number: w for name, w in own.items()} if own else None)
            scores.append(score)
            tags.append(tag)
            ids.append(one)
            asked.append(text)
    refuse(wrong)
    check_new_ids(ids, table, numbered)
    binder.note_wide(rows)

    def build(schema: Schema) -> Block:
        return Block(block_of(rows, weights, scores, schema), ids, asked, tags if any(tags) else None)

    return Prepared(draft, ids, build)


def admitted(table: Table, prepared: Prepared, sequence: I64 | None = None) -> Table:
    """The table with a batch in it, at the end of the order of insertion, or in the places that `sequence` gives."""
    table = table.with_schema(prepared.draft.commit()).with_constants(prepared.draft.constants)
    block = prepared.build(table.schema)
    own = block.arrays.sequence
    return table.appended(block, sequence if sequence is not None or not len(own) else own)


_collector_is_off = False  # by us; an interruption may leave it so, for the next one to mend


@contextmanager
def collector_held() -> Iterator[None]:
    """Hold back the cyclic garbage collector: a batch makes many objects that stay, and no cycles among them.

    It would look through all of them again and again, a fifth of the time that a large batch takes.
    """
    global _collector_is_off
    if not gc.isenabled() and not _collector_is_off:  # whoever calls wants it so
        yield
        return
    _collector_is_off = True
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        _collector_is_off = False


def _named(problem: EarmarkError, row: int | None, item: Any) -> EarmarkError:
    """The same problem with its row and its id."""
    one = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    if one is None and isinstance(item, tuple | list) and item:
        one = item[0]
    return problem.at(row=row, id=problem.id if one is None else one)


def replaced(table: Table, slots: I64, items: Iterable[Any]) -> Table:
    """The table with subscriptions in the place of others, given by slot, whose places in the order they take."""
    rest = table.removed(slots)
    return admitted(rest, prepare(rest, items, numbered=False), table.arrays.sequence[slots])


def revalued(table: Table, slot: int, given: Subscription) -> Table:
    """The table with other weights, score and tags for a subscription, whose condition stays as it was bound."""
    arrays, names = gather(table.arrays, np.array([slot])), table.schema.names
    try:
        weights = weights_on(given.weights, {names[number] for number in arrays.attr.tolist()})
        score, tags = checked_score(given.score), checked_tags(given.tags)
    except EarmarkError as problem:
        raise _named(problem, None, given) from None
    weight = np.array([weights.get(names[number], 1.0) for number in arrays.attr.tolist()])
    arrays = arrays._replace(
        weight=weight if (weight != 1.0).any() else weight[:0],
        score=np.array([score]) if score else np.empty(0),
    )
    text = table.asked(slot)
    block = Block(arrays, [table.ids[slot]], [text] if text else [], [tags] if tags else None)
    # first the new, then away with the old: between them, no attribute is without a user
    return table.appended(block, arrays.sequence).removed(np.array([slot]))


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
    """An Arrow map (pairs), a list of {key, value}, or a struct (absent fields are None) as a dict.

    Anything else is left for the checks.
    """
    if isinstance(value, dict):
        return {k: v for k, v in value.items() if v is not None}
    if not isinstance(value, list):
        return value
    if all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
        return dict(value)
    if all(isinstance(pair, dict) and set(pair) == {"key", "value"} for pair in value):
        return {pair["key"]: pair["value"] for pair in value}
    return value
