"""The subscription table: columnar, append-and-tombstone, the one thing every index is built from.

The arrays are those of arrays.py. Beside them: ids, what was asked (the text of each condition, as one run of
bytes; empty for ready-made columns, whose text follows from their intervals), and tags.

Readers and the writer: `Table` belongs to the writer; `view()` is what a reader holds. Appends write past every
view, a removal copies the bitmap of dead slots, a re-keying (`rekeyed`) replaces columns: no array that a view
holds ever changes. Slots are never reused within a generation; `compacted` starts the next one.

Invariant (`check`): `check_arrays`, one id a live slot, sequence unique among the living, dead bits only below
the slot count.
Complexity: append O(size of the block), amortised; remove O(slots / 64); view O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from earmark.errors import EarmarkError, require
from earmark.model import bits
from earmark.model.arrays import I32, I64, U8, U64, TableArrays, frozen
from earmark.model.attribute import Attribute, Schema
from earmark.model.growable import Growable
from earmark.model.rows import check_arrays, gather, spread
from earmark.model.strings import StringKeys

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

    arrays: TableArrays
    ids: Sequence[Id]
    asked: Sequence[str]
    tags: Sequence[Tags] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class TableView:
    """What a reader sees: a moment of the table that never changes."""

    arrays: TableArrays
    dead: U64
    slots: int
    live: int
    schema: Schema
    generation: int
    ids: list[Id]
    asked_start: I64
    asked_bytes: U8
    tagset: I32
    tagsets: list[Tags]
    postings: Mapping[tuple[str, str], Growable]
    ordered: bool  # slots ascend with sequence, so slot order is insertion order

    def eligible(self, scope: Tags = NO_TAGS) -> U64:
        """The bitmap of living slots that carry all these tags. O(slots / 64 + postings of the tags)."""
        words = bits.words_for(self.slots)
        alive = frozen(bits.all_set(self.slots) & ~self.dead[:words])
        for tag in scope:
            posting = self.postings.get(tag)
            slots = np.empty(0, np.int32) if posting is None else posting.view()
            alive = bits.both(alive, bits.from_slots(slots[slots < self.slots], self.slots))
        return alive

    def asked(self, slot: int) -> str:
        """The text of a slot's condition; empty for ready-made columns."""
        return self.asked_bytes[self.asked_start[slot] : self.asked_start[slot + 1]].tobytes().decode()

    def tags(self, slot: int) -> Tags:
        """The tags of a slot."""
        return self.tagsets[self.tagset[slot]] if len(self.tagset) else NO_TAGS

    def live_slots(self) -> I64:
        """The living slots in sequence order."""
        slots = bits.to_slots(self.eligible()).astype(np.int64)
        return slots[np.argsort(self.arrays.sequence[slots], kind="stable")]

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, without ids, texts, string constants and tags."""
        return sum(a.nbytes for a in self.arrays) + bits.words_for(self.slots) * 8


class Table:
    """The writer's side. Not thread-safe by itself: the Matcher holds a lock around every call but `view`'s use."""

    def __init__(self, schema: Schema | None = None, generation: int = 0) -> None:
        self.schema = schema or Schema()
        self.generation = generation
        self._columns = {name: Growable(dtype) for name, dtype in _DTYPES.items()}
        for name in _OFFSETS:
            self._columns[name].extend([0])
        self._asked_start = Growable(np.int64, np.zeros(1, np.int64))
        self._asked = Growable(np.uint8)
        self._tagset = Growable(np.int32)
        self._tagsets: list[Tags] = [NO_TAGS]
        self._tagset_number: dict[Tags, int] = {NO_TAGS: 0}
        self._postings: dict[tuple[str, str], Growable] = {}
        self.ids: list[Id] = []
        self.slot_of: dict[Id, int] = {}
        self._dead: U64 = frozen(np.zeros(0, np.uint64))
        self.next_sequence = 0
        self._ordered = True

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
        made = cls(schema, generation)
        made._columns = {name: Growable(_DTYPES[name], getattr(block.arrays, name)) for name in _DTYPES}
        made._asked_start, made._asked = Growable(np.int64, asked_start), Growable(np.uint8, asked)
        made.ids = list(block.ids)
        made.slot_of = {one: slot for slot, one in enumerate(made.ids)}
        made._append_tags(block.tags, len(made.ids), 0)
        made._reserve_bits(len(made.ids))
        made._ordered = ordered
        made.next_sequence = max(next_sequence, int(sequence.max()) + 1 if len(sequence) else 0)
        return made

    def __len__(self) -> int:
        return len(self.slot_of)

    @property
    def slots(self) -> int:
        """Slots used, the dead included."""
        return self._columns["sequence"].size

    def view(self) -> TableView:
        """The table as it is now, for readers."""
        return TableView(
            arrays=TableArrays(**{name: column.view() for name, column in self._columns.items()}),
            dead=self._dead,
            slots=self.slots,
            live=len(self.slot_of),
            schema=self.schema,
            generation=self.generation,
            ids=self.ids,
            asked_start=self._asked_start.view(),
            asked_bytes=self._asked.view(),
            tagset=self._tagset.view(),
            tagsets=self._tagsets,
            postings=self._postings,
            ordered=self._ordered,
        )

    # --- changes ---------------------------------------------------------------------------------------------

    def append(self, block: Block, sequence: I64 | None = None) -> range:
        """Add a block; ids must be new. Without `sequence` the next numbers are given. Returns the new slots."""
        count, first = len(block.ids), self.slots
        arrays = block.arrays
        self._check_room(arrays)
        if sequence is None:
            sequence = np.arange(self.next_sequence, self.next_sequence + count, dtype=np.int64)
        self._extend_default("weight", arrays.weight, len(arrays.attr), self._columns["attr"].size, 1.0)
        self._extend_default("score", arrays.score, count, first, 0.0)
        for name in ("attr", "accepts_null", "lo", "hi"):
            self._columns[name].extend(getattr(arrays, name))
        for name in _OFFSETS:
            column = self._columns[name]
            column.extend(getattr(arrays, name)[1:] + column.view()[-1])
        self._append_asked(block.asked, count)
        self._append_tags(block.tags, count, first)
        self._reserve_bits(first + count)
        self.ids.extend(block.ids)
        self.slot_of.update(zip(block.ids, range(first, first + count), strict=True))
        self._columns["sequence"].extend(sequence)
        if count:
            self._ordered = bool(
                self._ordered
                and (first == 0 or int(sequence[0]) > int(self._columns["sequence"].view()[first - 1]))
                and (sequence[:-1] < sequence[1:]).all()
            )
            self.next_sequence = max(self.next_sequence, int(sequence.max()) + 1)
        return range(first, first + count)

    def remove(self, ids: Iterable[Id]) -> None:
        """Tombstone these ids, all of which are live."""
        slots = np.array([self.slot_of.pop(one) for one in ids], np.int64)
        self._dead = bits.set_slots(self._dead, slots)

    def replace(self, one: Id, block: Block) -> None:
        """Put a block of one in the place of a live id, keeping its sequence."""
        old = self.slot_of[one]
        sequence = self._columns["sequence"].view()[old : old + 1].copy()
        self.append(block, sequence)
        self._dead = bits.set_slots(self._dead, np.array([old]))

    def give_keys(self, constants: Mapping[int, Iterable[bytes]]) -> None:
        """See that string constants, by attribute, have keys; an attribute whose gaps run out is relabelled."""
        for attribute, texts in constants.items():
            if not self.schema.strings[attribute].insert(texts):
                self.rekey_strings(attribute, texts)

    def rekey_strings(self, attribute: int, constants: Iterable[bytes]) -> None:
        """Give the constants of a string attribute new keys, with room for some more."""
        self._rekey(attribute, self.schema.strings[attribute].relabelled(constants))
        self.generation += 1

    def _rekey(self, attribute: int, new: StringKeys) -> None:
        old, positions = self.schema.strings[attribute], self._intervals_of(attribute)
        for name, side in (("lo", 1), ("hi", -1)):
            column = self._columns[name].view().copy()
            column[positions] = old.translated(column[positions], new, side)
            self._columns[name] = Growable(np.int64, column)
        self.schema = self.schema.replaced(self.schema.by_name[self.schema.names[attribute]], new)

    def _intervals_of(self, attribute: int) -> I64:
        constraints = np.flatnonzero(self._columns["attr"].view() == attribute)
        return spread(self._columns["interval_start"].view(), constraints)[1]

    def replace_arrays(self, block: TableArrays, schema: Schema) -> None:
        """Swap in re-keyed arrays of the same slots (same sequence, scores and weights) under a new schema."""
        for name in (*_OFFSETS, "attr", "accepts_null", "lo", "hi", "weight"):
            self._columns[name] = Growable(_DTYPES[name], getattr(block, name))
        self.schema = schema
        self.generation += 1

    def mark(self) -> Mark:
        """The table as it is, to go back to when a change of types turns out to be in vain."""
        return Mark(self, self.schema, dict(self.schema.by_name), dict(self._columns), self.generation)

    def compacted(self) -> Table:
        """A table of the living only, in sequence order: the next generation."""
        view = self.view()
        slots = view.live_slots()
        other = Table(self.schema, self.generation + 1)
        arrays = gather(view.arrays, slots)
        chosen = slots.tolist()
        tags = [view.tags(s) for s in chosen] if len(view.tagset) else None
        block = Block(arrays, [view.ids[s] for s in chosen], [], tags)
        other.append(block, arrays.sequence)
        starts, positions = spread_bytes(view.asked_start, slots)
        other._asked_start = Growable(np.int64, starts)
        other._asked = Growable(np.uint8, view.asked_bytes[positions])
        other.next_sequence = self.next_sequence
        for number in self.schema.strings:
            other._drop_unused(number)
        return other

    def _drop_unused(self, attribute: int) -> None:
        """Forget the constants of a string attribute that no bound uses any more, when they are many."""
        old = self.schema.strings[attribute]
        positions = self._intervals_of(attribute)
        bounds = np.concatenate([self._columns["lo"].view()[positions], self._columns["hi"].view()[positions]])
        used = old.used_by(bounds)
        if len(used) * 2 < len(old):
            self._rekey(attribute, StringKeys().relabelled(used))

    # --- pieces of append ------------------------------------------------------------------------------------

    def _check_room(self, arrays: TableArrays) -> None:
        for name in ("attr", "lo", "sequence"):
            if self._columns[name].size + len(getattr(arrays, name)) > _INT32_MAX:
                raise EarmarkError(
                    "a table holds at most 2,147,483,647 intervals; split the subscriptions over several"
                )

    def _extend_default(self, name: str, values: np.ndarray, count: int, before: int, default: float) -> None:
        """A column is stored from the first value that is not its default."""
        column = self._columns[name]
        if len(values) == 0 and column.size == 0:
            return
        if column.size == 0 and before:
            column = self._columns[name] = Growable(np.float64, np.full(before, default))
        column.extend(values if len(values) else np.full(count, default))

    def _append_asked(self, asked: Sequence[str], count: int) -> None:
        last = int(self._asked_start.view()[-1])
        if not asked:
            self._asked_start.extend(np.full(count, last))
            return
        encoded = [text.encode() for text in asked]
        self._asked_start.extend(np.cumsum([len(e) for e in encoded], dtype=np.int64) + last)
        self._asked.extend(np.frombuffer(b"".join(encoded), np.uint8))

    def _append_tags(self, tags: Sequence[Tags] | None, count: int, first: int) -> None:
        if self._tagset.size == 0 and not (tags and any(tags)):
            return
        if self._tagset.size == 0 and first:
            self._tagset = Growable(np.int32, np.zeros(first, np.int32))
        numbers = []
        postings: dict[tuple[str, str], list[int]] = {}
        for slot, own in enumerate(tags or [NO_TAGS] * count, first):
            number = self._tagset_number.get(own)
            if number is None:
                number = self._tagset_number[own] = len(self._tagsets)
                self._tagsets.append(own)
            numbers.append(number)
            for tag in own:
                postings.setdefault(tag, []).append(slot)
        self._tagset.extend(numbers)
        for tag, slots in postings.items():
            self._postings.setdefault(tag, Growable(np.int32)).extend(slots)

    def _reserve_bits(self, slots: int) -> None:
        if bits.words_for(slots) > len(self._dead):
            grown = np.zeros(max(16, bits.words_for(slots), len(self._dead) * 2), np.uint64)
            grown[: len(self._dead)] = self._dead
            self._dead = frozen(grown)

    # --- checks ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert the invariant."""
        view = self.view()
        check_arrays(view.arrays, len(self.schema))
        assert len(self.ids) == view.slots == len(view.asked_start) - 1, "ids, texts and slots disagree"
        assert len(view.tagset) in (0, view.slots), "tags and slots disagree"
        live = bits.to_slots(view.eligible())
        assert sorted(self.slot_of.values()) == live.tolist(), "ids and living slots disagree"
        assert all(self.ids[slot] == one for one, slot in self.slot_of.items()), "an id points at another's slot"
        assert len(np.unique(view.arrays.sequence[live])) == len(live), "a sequence number is used twice"
        for strings in self.schema.strings.values():
            strings.check()


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """Where a table was before types were changed (nothing may have been added or removed since)."""

    table: Table
    schema: Schema
    by_name: dict[str, Attribute]
    columns: dict[str, Growable]
    generation: int

    def restored(self) -> Table:
        """The table as it was."""
        self.schema.by_name.update(self.by_name)
        self.table.schema = self.schema
        self.table._columns = self.columns
        self.table.generation = self.generation
        return self.table


def spread_bytes(start: I64, rows: I64) -> tuple[I64, I64]:
    """`spread` for runs of bytes, whose offsets need 64 bits."""
    counts = start[rows + 1] - start[rows]
    made = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(counts, out=made[1:])
    return made, np.arange(made[-1], dtype=np.int64) + np.repeat(start[rows] - made[:-1], counts)
