"""Ready-made subscriptions: bounds in columns, taken in without a loop over rows.

Two forms, beside `id` and the optional `score`, `weights` and `tags`:

    bounds   a lower and an upper column an attribute (`age_lo`, `age_hi`, or names given by the caller);
             inclusive, NULL leaves the side open, both NULL leave the attribute unconstrained
    ranges   one column, a list of {attribute, lo, hi[, weight]} a row, for many attributes of which a row uses few;
             several ranges on one attribute intersect

Bounds mean what `>=` and `<=` with that literal mean; a lower bound above the upper makes a clause that never
matches, and is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.errors import AttributeTypeError, EarmarkError, SubscriptionError
from earmark.model.arrays import F64, I32, I64, TableArrays
from earmark.model.attribute import FLOAT, INTEGER, STRING, Attribute, Draft, Schema
from earmark.model.event import SchemaChange, checked_weights
from earmark.model.frames import one_array
from earmark.model.intake import Prepared, _mapping
from earmark.model.keys import cut, float_keys, type_of
from earmark.model.rows import offsets
from earmark.model.subscription import check_new_ids, checked_id, checked_tags
from earmark.model.table import Block, Id, Table

if TYPE_CHECKING:
    import pyarrow as pa

Bounds = Mapping[str, tuple[str, str]]


class Pieces(NamedTuple):
    """Ranges of one attribute: which rows, and the Arrow columns of their bounds (NULL is open)."""

    attribute: Attribute
    rows: I64
    lo: pa.Array
    hi: pa.Array
    weight: F64


def prepare_columns(table: Table, frame: pa.Table, bounds: Bounds | None) -> Prepared:
    """Check a frame of bounds; an error names the column or the row."""
    draft = Draft(table.schema)
    count = frame.num_rows
    ids = _ids(frame)
    check_new_ids(ids, table.slot_of, type(table.ids[0]) if table.ids else None)
    if "ranges" in frame.column_names and bounds is None:
        pieces = _from_ranges(draft, frame)
    else:
        pieces = _from_bounds(draft, frame, bounds or _named_bounds(frame))
    pieces = [_typed(draft, p) for p in pieces]
    for piece in pieces:
        _note_strings(draft, piece)
    scores = _scores(frame)
    tags = _tags(frame, count)
    weights = _row_weights(draft, frame)

    def build(schema: Schema) -> Block:
        return Block(_arrays(schema, pieces, count, scores, weights), ids, [], tags)

    return Prepared(draft, ids, build)


# --- reading the frame --------------------------------------------------------------------------------------


def _ids(frame: pa.Table) -> list[Id]:
    if "id" not in frame.column_names:
        raise SubscriptionError(f"the frame has no column 'id'; its columns are {', '.join(frame.column_names)}")
    ids = frame.column("id").to_pylist()
    for row, one in enumerate(ids):
        if type(one) is not int or not -(2**63) <= one < 2**63:
            try:
                checked_id(one)
            except EarmarkError as problem:
                raise SubscriptionError(f"row {row}: {problem}") from None
    return ids


def _named_bounds(frame: pa.Table) -> Bounds:
    names = frame.column_names
    found = {n[:-3]: (n, n[:-3] + "_hi") for n in names if n.endswith("_lo") and n[:-3] + "_hi" in names}
    if not found:
        raise SubscriptionError(
            "the frame has neither a column 'condition', nor 'ranges', nor pairs such as 'age_lo' and 'age_hi'; "
            f"its columns are {', '.join(names)}"
        )
    return found


def _from_bounds(draft: Draft, frame: pa.Table, bounds: Bounds) -> list[Pieces]:
    pieces = []
    for name, pair in bounds.items():
        for column in pair:
            if column not in frame.column_names:
                raise SubscriptionError(f"the bounds of {name!r} name a column {column!r} that the frame does not have")
        low, high = (one_array(frame.column(column)) for column in pair)
        rows = np.flatnonzero(~(np.asarray(low.is_null()) & np.asarray(high.is_null())))
        pieces.append(Pieces(draft.get(name), rows, low.take(rows), high.take(rows), np.empty(0)))
    return pieces


def _from_ranges(draft: Draft, frame: pa.Table) -> list[Pieces]:
    import pyarrow as pa

    column = one_array(frame.column("ranges"))
    fields = {f.name for f in column.type.value_type} if pa.types.is_list(column.type) else set()
    if not {"attribute", "lo", "hi"} <= fields:
        raise SubscriptionError("the column 'ranges' holds a list of {attribute, lo, hi} a row")
    if column.null_count:
        raise SubscriptionError(f"row {np.flatnonzero(np.asarray(column.is_null()))[0]}: 'ranges' is NULL")
    flat = column.flatten()
    parts = dict(zip([f.name for f in flat.type], flat.flatten(), strict=True))
    names = parts["attribute"]
    names = names if pa.types.is_dictionary(names.type) else names.dictionary_encode()
    if names.null_count:
        raise SubscriptionError("an entry of 'ranges' has no attribute")
    codes = np.asarray(names.indices).astype(np.int64)
    starts = np.asarray(column.offsets)
    rows = np.repeat(np.arange(len(column)), np.diff(starts))
    weight = _weight_field(parts.get("weight"))
    order = np.argsort(codes, kind="stable")
    borders = np.searchsorted(codes[order], np.arange(len(names.dictionary) + 1))
    pieces = []
    for code, name in enumerate(names.dictionary.to_pylist()):
        mine = order[borders[code] : borders[code + 1]]
        if len(mine):
            own = weight[mine] if len(weight) else weight
            pieces.append(Pieces(draft.get(name), rows[mine], parts["lo"].take(mine), parts["hi"].take(mine), own))
    return pieces


def _weight_field(column: pa.Array | None) -> F64:
    if column is None:
        return np.empty(0)
    weight = np.asarray(column.cast("float64").fill_null(1.0))
    _check_weights(weight)
    return weight


def _check_weights(weight: F64) -> None:
    if not (np.isfinite(weight) & (weight >= 0)).all():
        raise SubscriptionError("a weight is negative or not finite")


def _scores(frame: pa.Table) -> F64:
    if "score" not in frame.column_names:
        return np.empty(0)
    scores = np.asarray(one_array(frame.column("score")).cast("float64").fill_null(0.0))
    if not np.isfinite(scores).all():
        row = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise SubscriptionError(f"row {row}: a score is finite; got {scores[row]}")
    return scores if scores.any() else np.empty(0)


def _tags(frame: pa.Table, count: int) -> list[Any] | None:
    if "tags" not in frame.column_names:
        return None
    return [checked_tags(_mapping(t)) if t else () for t in frame.column("tags").to_pylist()]


def _row_weights(draft: Draft, frame: pa.Table) -> list[dict[int, float]] | None:
    if "weights" not in frame.column_names:
        return None
    made = []
    for row, given in enumerate(frame.column("weights").to_pylist()):
        checked = checked_weights(_mapping(given) if given else None, f"row {row}", SubscriptionError)
        made.append({draft.get(name).number: weight for name, weight in checked.items()})
    return made


# --- types and keys -----------------------------------------------------------------------------------------


def _typed(draft: Draft, piece: Pieces) -> Pieces:
    """Learn the attribute's type from the first bound there is; widen a learned integer at a fractional bound."""
    import pyarrow.compute as pc

    attribute = piece.attribute
    for column in (piece.lo, piece.hi):
        if attribute.type is None and column.null_count < len(column):
            value = column.drop_null()[0].as_py()
            attribute = draft.set_type(attribute, type_of(value), f"a column of bounds, {value!r}")
        if attribute.type is not None and attribute.type.kind == INTEGER and not attribute.declared:
            if _family(column) == "f" and pc.any(pc.not_equal(column, pc.floor(column))).as_py():
                raise SchemaChange(attribute, type_of(0.5), "a column of fractional bounds")
    if attribute.type is not None:
        for column in (piece.lo, piece.hi):
            _check_family(draft, attribute, column)
    return piece._replace(attribute=attribute)


def _family(column: pa.Array) -> str:
    import pyarrow as pa

    if pa.types.is_integer(column.type):
        return "i"
    return "f" if pa.types.is_floating(column.type) else "other"


def _check_family(draft: Draft, attribute: Attribute, column: pa.Array) -> None:
    if column.null_count == len(column):
        return
    assert attribute.type is not None
    value = column.drop_null()[0].as_py()
    if attribute.type.kind == STRING:
        fits = isinstance(value, str)
    else:
        fits = cut(attribute.type, value, draft.schema.zone) is not None
    if not fits:
        raise AttributeTypeError(
            f"attribute {attribute.name!r} is {attribute.described()}, but a column of bounds holds {value!r}"
        )


def _note_strings(draft: Draft, piece: Pieces) -> None:
    if piece.attribute.type is not None and piece.attribute.type.kind == STRING:
        for column in (piece.lo, piece.hi):
            for value in column.unique().to_pylist():
                if value is not None:
                    draft.constant(piece.attribute, value.encode())


def _intervals(schema: Schema, piece: Pieces) -> tuple[I64, I64]:
    """Keys of the lower and upper bounds; (high, low) of the domain where no value can lie between."""
    type_ = piece.attribute.type
    if type_ is None:  # every bound is NULL
        return _NONE, _NONE
    lo, above = _bound_keys(schema, piece.attribute, piece.lo, 0)
    hi, below = _bound_keys(schema, piece.attribute, piece.hi, 1)
    never = above | below
    lo[never], hi[never] = type_.high, type_.low
    return lo, hi


def _bound_keys(
    schema: Schema, attribute: Attribute, column: pa.Array, side: int
) -> tuple[I64, NDArray[np.bool_]]:
    """Keys of lower (side 0) or upper (side 1) bounds, open where NULL, and which lie beyond the whole domain."""
    type_ = attribute.type
    assert type_ is not None
    inside = np.zeros(len(column), bool)
    open_key = (type_.low, type_.high)[side]
    known = ~np.asarray(column.is_null())
    if not known.any():
        return np.full(len(column), open_key), inside
    family = _family(column)
    if type_.kind == INTEGER and family == "i" and str(column.type) != "uint64":
        return np.where(known, np.asarray(column.cast("int64").fill_null(0)), open_key), inside
    if type_.kind == FLOAT and family in "if":
        return np.where(known, float_keys(np.asarray(column.cast("float64").fill_null(0.0))), open_key), inside
    coded = column.dictionary_encode()
    keys = [_bound_key(schema, attribute, value.as_py(), side) for value in coded.dictionary]
    beyond = np.array([k > type_.high if side == 0 else k < type_.low for k in keys])
    clipped = np.array([min(max(k, type_.low), type_.high) for k in keys], np.int64)
    codes = np.asarray(coded.indices.fill_null(0))
    return np.where(known, clipped[codes], open_key), known & beyond[codes]


def _bound_key(schema: Schema, attribute: Attribute, value: Any, side: int) -> int:
    type_ = attribute.type
    assert type_ is not None
    if type_.kind == STRING:
        return schema.strings[attribute.number].of_constant(value.encode())
    found = cut(type_, value, schema.zone)
    assert found is not None, "checked before"
    return found[0] + 1 if side == 0 else found[1]


def _arrays(
    schema: Schema, pieces: list[Pieces], count: int, scores: F64, weights: list[dict[int, float]] | None
) -> TableArrays:
    number = np.concatenate([np.full(len(p.rows), p.attribute.number, np.int32) for p in pieces] or [_NONE32])
    rows = np.concatenate([p.rows for p in pieces] or [_NONE])
    ends = [_intervals(schema, p) for p in pieces]
    lo = np.concatenate([low for low, _ in ends] or [_NONE])
    hi = np.concatenate([high for _, high in ends] or [_NONE])
    weight = _piece_weights(pieces, rows, number, weights)
    order = np.lexsort((number, rows))
    rows, number, lo, hi = rows[order], number[order], lo[order], hi[order]
    weight = weight[order] if len(weight) else weight
    first = np.flatnonzero(np.r_[True, (rows[1:] != rows[:-1]) | (number[1:] != number[:-1])][: len(rows)])
    if len(first) < len(rows):
        lo, hi = np.maximum.reduceat(lo, first), np.minimum.reduceat(hi, first)
        rows, number, weight = rows[first], number[first], weight[first] if len(weight) else weight
    some = lo <= hi
    return TableArrays(
        clause_start=np.arange(count + 1, dtype=np.int32),
        constraint_start=offsets(np.bincount(rows, minlength=count)),
        attr=number,
        accepts_null=np.zeros(len(rows), np.uint8),
        interval_start=offsets(some.astype(np.int64)),
        lo=lo[some],
        hi=hi[some],
        weight=weight,
        score=scores,
        sequence=np.empty(0, np.int64),
    )


def _piece_weights(
    pieces: list[Pieces], rows: I64, number: I32, weights: list[dict[int, float]] | None
) -> F64:
    if weights is not None:
        made = [weights[r].get(n, 1.0) for r, n in zip(rows.tolist(), number.tolist(), strict=True)]
        return np.array(made, np.float64)
    if any(len(p.weight) for p in pieces):
        return np.concatenate([p.weight if len(p.weight) else np.ones(len(p.rows)) for p in pieces])
    return np.empty(0)


_NONE: I64 = np.empty(0, np.int64)
_NONE32: NDArray[np.int32] = np.empty(0, np.int32)
