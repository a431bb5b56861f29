"""The subscription table: columnar, append-and-tombstone, the one thing every index is built from.

The arrays are those of arrays.py. Beside them: ids, what was asked (the text of each condition, as one run of
bytes; empty for ready-made columns, whose text follows from their intervals), and tags.

A `Table` is a moment that never changes: every change gives another one, which shares what it can. Appends write past
every element that any moment has (growable.py), a removal copies the bitmap of dead slots, a change of keys replaces
columns. So whoever fails half-way, at any line, has changed nothing: a table counts when the matcher publishes it.
Slots are never reused within a generation; `compacted` starts the next one.

Types follow the conditions: `uses` counts, by attribute, the living constraints that compare it with a value. A learned
type is free again when they are none.

Invariant (`check`): `check_arrays`, one id per live slot, sequence unique among the living, dead bits only below
the slot count, `uses` as counted afresh.
Complexity: append O(size of the block), amortised; remove O(slots / 64).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.flat import bits
from earmark.flat.growable import Growable, Listed
from earmark.flat.types import I32, I64, U8, U64, frozen
from earmark.keys.numbers import narrow_constants, wide_bounds
from earmark.keys.schema import WIDE_NUMBER, Attribute, Schema
from earmark.keys.strings import StringKeys
from earmark.segment.arrays import SegmentArrays
from earmark.segment.lookups import Lookups
from earmark.segment.rows import check_arrays, gather, spread, uses_of

Id: TypeAlias = str | int
Tags: TypeAlias = tuple[tuple[str, str], ...]
NO_TAGS: Tags = ()
_INT32_MAX = 2**31 - 1
_OFFSETS = ("clause_start", "constraint_start", "interval_start")
_DTYPES = {
    "clause_start": np.int32,
    "constraint_start": np.int32,
    "attr": np.int32,
    "accepts_null": np.uint8,
    "interval_start": np.int32,
    "lo": np.int64,
    "hi": np.int64,
    "weight": np.float64,
    "score": np.float64,
    "sequence": np.int64,
}


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Subscriptions ready to append: arrays, and beside them ids, texts and tags (no texts: all are ready-made)."""

    arrays: SegmentArrays
    ids: Sequence[Id]
    asked: Sequence[str]
    tags: Sequence[Tags] | None = None


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a table that grow together."""

    of: dict[str, Growable]
    asked_start: Growable
    asked: Growable
    tagset: Growable
    tagsets: Listed[Tags]
    ids: Listed[Id]

    @cached_property
    def arrays(self) -> SegmentArrays:
        """The arrays of all slots, read-only."""
        return SegmentArrays(**{name: column.view() for name, column in self.of.items()})

    @classmethod
    def empty(cls) -> Columns:
        """The columns of no subscriptions."""
        of = {name: Growable(dtype, np.zeros(int(name in _OFFSETS), dtype)) for name, dtype in _DTYPES.items()}
        start = Growable(np.int64, np.zeros(1, np.int64))
        return cls(of, start, Growable(np.uint8), Growable(np.int32), Listed([NO_TAGS]), Listed([]))


@dataclass(frozen=True, eq=False)
class Table:
    """A moment of the subscriptions of a matcher."""

    schema: Schema
    columns: Columns
    dead: U64
    live: int
    uses: I32
    generation: int
    next_sequence: int
    ordered: bool
    """Slots ascend with sequence, so slot order is insertion order."""
    lookups: Lookups

    @classmethod
    def empty(cls, schema: Schema | None = None, generation: int = 0) -> Table:
        """A table without subscriptions."""
        schema = schema or Schema()
        return cls(
            schema=schema,
            columns=Columns.empty(),
            dead=frozen(np.zeros(0, np.uint64)),
            live=0,
            uses=frozen(np.zeros(len(schema), np.int32)),
            generation=generation,
            next_sequence=0,
            ordered=True,
            lookups=Lookups(),
        )

    @classmethod
    def restored(
        cls, schema: Schema, block: Block, asked_start: I64, asked: U8, generation: int, next_sequence: int
    ) -> Table:
        """A table around arrays from outside (mapped files); they are checked, not copied, and never written to."""
        check_arrays(block.arrays, len(schema))
        require(asked_start[0] == 0 and asked_start[-1] == len(asked), "the offsets of conditions do not fit them")
        require(bool((asked_start[:-1] <= asked_start[1:]).all()), "the offsets of conditions descend")
        asked.tobytes().decode()
        begins = asked[asked_start[asked_start < len(asked)]]
        require(not ((begins & 0xC0) == 0x80).any(), "a condition begins inside a character")
        sequence = block.arrays.sequence
        ordered = bool((sequence[:-1] < sequence[1:]).all())
        require(ordered or len(np.unique(sequence)) == len(sequence), "a sequence number is used twice")
        require(len(sequence) == len(block.ids), "ids and slots disagree")
        require(len(asked_start) == len(sequence) + 1, "conditions and slots disagree")
        start = cls.empty(schema, generation)
        tagset, tagsets = _tagged(start, block.tags, len(sequence))
        columns = Columns(
            of={name: Growable(_DTYPES[name], getattr(block.arrays, name)) for name in _DTYPES},
            asked_start=Growable(np.int64, asked_start),
            asked=Growable(np.uint8, asked),
            tagset=tagset,
            tagsets=tagsets,
            ids=Listed(list(block.ids)),
        )
        made = replace(
            start,
            columns=columns,
            dead=_reserved(start.dead, len(sequence)),
            live=len(sequence),
            uses=start._counting(uses_of(block.arrays, schema), 1),
            next_sequence=max(next_sequence, int(sequence.max()) + 1 if len(sequence) else 0),
            ordered=ordered,
        )
        return made._with_free_types(range(len(schema)))

    # --- looking ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions are living."""
        return self.live

    def __bool__(self) -> bool:
        """Always: a table without subscriptions still has its schema."""
        return True

    @property
    def arrays(self) -> SegmentArrays:
        """The arrays of all slots, read-only."""
        return self.columns.arrays

    @property
    def slots(self) -> int:
        """Slots used, the dead included."""
        return self.columns.of["sequence"].size

    @property
    def ids(self) -> list[Id]:
        """The ids by slot, and perhaps more behind them. Not to be changed."""
        return self.columns.ids.items

    @property
    def tagset(self) -> I32:
        """The number of each slot's set of tags; empty when there are no tags."""
        return self.columns.tagset.view()

    @property
    def tagsets(self) -> list[Tags]:
        """The sets of tags by number, and perhaps more behind them. Not to be changed."""
        return self.columns.tagsets.items

    @property
    def asked_start(self) -> I64:
        """Where the text of each slot's condition begins, and the last ends."""
        return self.columns.asked_start.view()

    @property
    def asked_bytes(self) -> U8:
        """The texts of all conditions."""
        return self.columns.asked.view()

    def find(self, one: object) -> int | None:
        """The slot of a living id; None when there is none. Amortised O(1)."""
        return self.lookups.find(self, one)

    def has_any(self, ids: set[Id]) -> bool:
        """Whether one of these ids is living."""
        return self.lookups.has_any(self, ids)

    def eligible(self, scope: Tags = NO_TAGS) -> U64:
        """The bitmap of living slots that carry all these tags. O(slots / 64 + slots with these tags)."""
        alive = self._alive
        for tag in scope:
            alive = bits.both(alive, bits.from_slots(self.lookups.tagged(self, tag), self.slots))
        return alive

    @cached_property
    def _alive(self) -> U64:
        return frozen(bits.all_set(self.slots) & ~self.dead[: bits.words_for(self.slots)])

    def is_live(self, slot: int) -> bool:
        """Whether a slot is one that was not removed."""
        return slot < self.slots and not int(self.dead[slot >> 6]) >> (slot & 63) & 1

    def asked(self, slot: int) -> str:
        """The text of a slot's condition; empty for ready-made columns."""
        start = self.columns.asked_start.view()
        return self.asked_bytes[start[slot] : start[slot + 1]].tobytes().decode()

    def tags(self, slot: int) -> Tags:
        """The tags of a slot."""
        return self.tagsets[self.tagset[slot]] if self.columns.tagset.size else NO_TAGS

    def weights(self, slot: int) -> dict[int, float]:
        """The weights of a slot's attributes, by number."""
        table = self.arrays
        first = table.constraint_start[table.clause_start[slot]]
        last = table.constraint_start[table.clause_start[slot + 1]]
        weight = table.weight[first:last].tolist() if len(table.weight) else [1.0] * int(last - first)
        return dict(zip(table.attr[first:last].tolist(), weight, strict=True))

    def live_slots(self) -> I64:
        """The living slots in sequence order."""
        slots = bits.to_slots(self._alive).astype(np.int64)
        return slots if self.ordered else slots[np.argsort(self.arrays.sequence[slots], kind="stable")]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without ids, texts, constants and tags."""
        return sum(a.nbytes for a in self.arrays) + bits.words_for(self.slots) * 8

    # --- changes ---------------------------------------------------------------------------------------------

    def appended(self, block: Block, sequence: I64 | None = None) -> Table:
        """The table with a block behind it, whose ids must be new. Without `sequence` the next numbers are given."""
        count, first, arrays = len(block.ids), self.slots, block.arrays
        self._check_room(arrays)
        if not count:
            return self
        if sequence is None:
            sequence = np.arange(self.next_sequence, self.next_sequence + count, dtype=np.int64)
        of = dict(self.columns.of)
        of["weight"] = _with_default(of["weight"], arrays.weight, len(arrays.attr), of["attr"].size, 1.0)
        of["score"] = _with_default(of["score"], arrays.score, count, first, 0.0)
        for name in ("attr", "accepts_null", "lo", "hi"):
            of[name] = of[name].extended(getattr(arrays, name))
        for name in _OFFSETS:
            of[name] = of[name].extended(getattr(arrays, name)[1:] + of[name].view()[-1])
        last = self.columns.of["sequence"].view()[-1:]
        of["sequence"] = of["sequence"].extended(sequence)
        asked_start, asked = _with_texts(self.columns, block.asked, count)
        tagset, tagsets = _tagged(self, block.tags, count)
        lookups = self.lookups if self.columns.ids.is_last else Lookups()
        ids = self.columns.ids.extended(list(block.ids))
        uses = uses_of(arrays, self.schema)
        made = replace(
            self,
            columns=Columns(of, asked_start, asked, tagset, tagsets, ids),
            dead=_reserved(self.dead, first + count),
            live=self.live + count,
            lookups=lookups,
            uses=self._counting(uses, 1),
            next_sequence=max(self.next_sequence, int(sequence.max()) + 1),
            ordered=bool(
                self.ordered
                and (first == 0 or int(sequence[0]) > int(last[0]))
                and (sequence[:-1] < sequence[1:]).all()
            ),
        )
        return made._with_free_types(uses)

    def removed(self, slots: I64) -> Table:
        """The table without these slots, all of which are living."""
        uses = uses_of(gather(self.arrays, slots), self.schema)
        made = replace(
            self,
            dead=bits.set_slots(self.dead, slots),
            live=self.live - len(slots),
            uses=self._counting(uses, -1),
        )
        return made._with_free_types(uses)

    def with_schema(self, schema: Schema) -> Table:
        """The table under a schema that has more attributes, or types for such as had none."""
        if schema is self.schema:
            return self
        uses = np.zeros(len(schema), np.int32)
        uses[: len(self.uses)] = self.uses
        return replace(self, schema=schema, uses=frozen(uses))

    def with_constants(self, constants: Mapping[int, Iterable[bytes]]) -> Table:
        """The table after constants, by attribute, have keys; where gaps run out, the attribute's get new ones.

        A number attribute that is named here becomes wide.
        """
        made = self
        for number, texts in constants.items():
            attribute = made._attribute(number)
            assert attribute.type is not None
            if not attribute.type.keyed:
                made = made._widened(attribute, texts)
            elif not made.schema.strings[number].insert(texts):
                made = made.relabelled(number, texts)
        return made

    def relabelled(self, number: int, constants: Iterable[bytes] = ()) -> Table:
        """The table after the constants of an attribute got new keys, with room for some more."""
        other = self._rekeyed(number, self.schema.strings[number].relabelled(constants))
        return replace(other, generation=self.generation + 1)

    def compacted(self) -> Table:
        """A table of the living only, in sequence order: the next generation."""
        slots = self.live_slots()
        arrays = gather(self.arrays, slots)
        chosen = slots.tolist()
        tags = [self.tags(s) for s in chosen] if self.columns.tagset.size else None
        start = Table.empty(self.schema, self.generation + 1)
        made = start.appended(Block(arrays, [self.ids[s] for s in chosen], [], tags), arrays.sequence)
        starts, positions = spread_bytes(self.asked_start, slots)
        columns = replace(
            made.columns,
            asked_start=Growable(np.int64, starts),
            asked=Growable(np.uint8, self.asked_bytes[positions]),
        )
        made = replace(made, columns=columns, next_sequence=self.next_sequence)
        for number in self.schema.strings:
            made = made._without_unused(number)
        return made

    # --- pieces of changes -----------------------------------------------------------------------------------

    def _attribute(self, number: int) -> Attribute:
        return self.schema.by_name[self.schema.names[number]]

    def _counting(self, uses: Mapping[int, int], sign: int) -> I32:
        """The uses of attributes with some more, or fewer."""
        counted = self.uses.copy()
        for number, count in uses.items():
            counted[number] += sign * count
        return frozen(counted)

    def _with_free_types(self, numbers: Iterable[int]) -> Table:
        """Without the learned types of those attributes that nothing living compares with a value."""
        free = [self._attribute(number) for number in numbers if not self.uses[number]]
        free = [a for a in free if a.type is not None and not a.declared]
        if not free:
            return self
        return replace(self, schema=self.schema.replaced(replace(a, type=None, origin="") for a in free))

    def _widened(self, attribute: Attribute, constants: Iterable[bytes]) -> Table:
        """With the bounds of a number attribute as keys of a dictionary, with room for some more."""
        positions = self._living_intervals(attribute.number)
        own = narrow_constants(self.arrays.lo[positions], self.arrays.hi[positions])
        keys = StringKeys().relabelled({*own, *constants})
        schema = self.schema.replaced([replace(attribute, type=WIDE_NUMBER)], {attribute.number: keys})
        if not len(positions):  # nobody has keys yet
            return replace(self, schema=schema)
        lo, hi = self.arrays.lo.copy(), self.arrays.hi.copy()
        lo[positions], hi[positions] = wide_bounds(lo[positions], hi[positions], keys)
        return replace(self._with_bounds(lo, hi), schema=schema, generation=self.generation + 1)

    def _living_intervals(self, number: int) -> I64:
        """The positions of all intervals of living slots on one attribute."""
        constraints = np.flatnonzero(self.arrays.attr == number)
        clauses = np.searchsorted(self.arrays.constraint_start, constraints, "right") - 1
        slots = np.searchsorted(self.arrays.clause_start, clauses, "right") - 1
        alive = (self._alive[slots >> 6] >> (slots & 63).astype(np.uint64)) & np.uint64(1)
        return spread(self.arrays.interval_start, constraints[alive.astype(bool)])[1]

    def _rekeyed(self, number: int, new: StringKeys) -> Table:
        old, positions = self.schema.strings[number], self._living_intervals(number)  # the dead may have other types
        lo, hi = self.arrays.lo.copy(), self.arrays.hi.copy()
        lo[positions] = old.translated(lo[positions], new, 1)
        hi[positions] = old.translated(hi[positions], new, -1)
        return replace(self._with_bounds(lo, hi), schema=self.schema.replaced((), {number: new}))

    def _with_bounds(self, lo: I64, hi: I64) -> Table:
        of = {**self.columns.of, "lo": Growable(np.int64, lo), "hi": Growable(np.int64, hi)}
        return replace(self, columns=replace(self.columns, of=of))

    def _without_unused(self, number: int) -> Table:
        """Without the constants of an attribute that no bound uses any more, when they are many."""
        old = self.schema.strings[number]
        positions = self._living_intervals(number)
        used = old.used_by(np.concatenate([self.arrays.lo[positions], self.arrays.hi[positions]]))
        return self._rekeyed(number, StringKeys().relabelled(used)) if len(used) * 2 < len(old) else self

    def _check_room(self, arrays: SegmentArrays) -> None:
        for name in ("attr", "lo", "sequence"):
            if self.columns.of[name].size + len(getattr(arrays, name)) > _INT32_MAX:
                raise EarmarkError(
                    "a table holds at most 2,147,483,647 intervals; split the subscriptions over several"
                )

    # --- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless the invariant holds."""
        check_arrays(self.arrays, len(self.schema))
        same = len(self.columns.ids) == self.slots == self.columns.asked_start.size - 1
        require(same and len(self.ids) >= self.slots, "ids, texts and slots disagree")
        require(self.columns.tagset.size in (0, self.slots), "tags and slots disagree")
        live = bits.to_slots(self._alive)
        require(len(live) == self.live, "the number of living slots is wrong")
        ids = [self.ids[slot] for slot in live.tolist()]
        require(len(set(ids)) == len(ids), "two living slots have one id")
        require(len(np.unique(self.arrays.sequence[live])) == len(live), "a sequence number is used twice")
        living = self.arrays if len(live) == self.slots else gather(self.arrays, live.astype(np.int64))
        counted = uses_of(living, self.schema)
        own = {number: count for number, count in enumerate(self.uses.tolist()) if count}
        require({n: count for n, count in counted.items() if count} == own, "the uses of attributes are miscounted")
        for attribute in self.schema:
            free = attribute.type is None or attribute.declared or self.uses[attribute.number]
            require(free, f"nothing uses the type of attribute {attribute.name!r}")
        for strings in self.schema.strings.values():
            strings.check()

    def check_lookups(self) -> None:
        """Raise AssertionError unless every living id leads to its slot. O(slots)."""
        live = bits.to_slots(self._alive).tolist()
        require([self.find(self.ids[slot]) for slot in live] == live, "ids and living slots disagree")


def _with_default(column: Growable, values: np.ndarray, count: int, before: int, default: float) -> Growable:
    """A column is stored from the first value that is not its default."""
    if len(values) == 0 and column.size == 0:
        return column
    if column.size == 0 and before:
        column = Growable(np.float64, np.full(before, default))
    return column.extended(values if len(values) else np.full(count, default))


def _with_texts(columns: Columns, asked: Sequence[str], count: int) -> tuple[Growable, Growable]:
    last = int(columns.asked_start.view()[-1])
    if not asked:
        return columns.asked_start.extended(np.full(count, last)), columns.asked
    encoded = [text.encode() for text in asked]
    start = columns.asked_start.extended(np.cumsum([len(e) for e in encoded], dtype=np.int64) + last)
    return start, columns.asked.extended(np.frombuffer(b"".join(encoded), np.uint8))


def _tagged(table: Table, tags: Sequence[Tags] | None, count: int) -> tuple[Growable, Listed[Tags]]:
    """The sets of tags of new slots, behind those of the others."""
    column, known = table.columns.tagset, table.columns.tagsets
    if column.size == 0 and not (tags and any(tags)):
        return column, known
    if column.size == 0 and table.slots:
        column = Growable(np.int32, np.zeros(table.slots, np.int32))
    new: dict[Tags, int] = {}
    numbers = []
    for own in tags or [NO_TAGS] * count:
        number = new.get(own)
        if number is None:
            number = table.lookups.tagset(table, own)
        if number is None:
            number = new[own] = known.size + len(new)
        numbers.append(number)
    return column.extended(numbers), known.extended(list(new)) if new else known


def _reserved(dead: U64, slots: int) -> U64:
    """A bitmap with room for so many slots."""
    if bits.words_for(slots) <= len(dead):
        return dead
    grown = np.zeros(max(16, bits.words_for(slots), len(dead) * 2), np.uint64)
    grown[: len(dead)] = dead
    return frozen(grown)


def spread_bytes(start: I64, rows: I64) -> tuple[I64, I64]:
    """`spread` for runs of bytes, whose offsets need 64 bits."""
    counts = start[rows + 1] - start[rows]
    made = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=made[1:])
    return made, np.arange(made[-1], dtype=np.int64) + np.repeat(start[rows] - made[:-1], counts)
