"""Matcher: the engine a user holds.

    m = Matcher()
    m.add("ad-17", "credit_score > 650 AND age BETWEEN 22 AND 36")
    m.match({"credit_score": 732, "age": 27})          # ['ad-17']

Threads: any number of threads may search while one or more add, remove and update. Writers take turns (`_writing`);
they check and parse first, and hold `_lock` only while they change the table. A search takes the published state (one
reference: a view of the table and the index over it) and works on that alone, so it sees all of an update or nothing
of it, and never waits for a writer. The one exception: an event that teaches an attribute its type, or widens it, is
itself a write.

Results are deterministic: matches in order of insertion; ranked results by score, then order of insertion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from earmark import index as indexes
from earmark.errors import EarmarkError, EventError, SubscriptionError, TableError
from earmark.index.live import NO_SLOTS, Live
from earmark.index.verify import Verification, compare
from earmark.model import arrow, bits
from earmark.model.arrays import F64, I32, I64, U64, EventArrays, frozen
from earmark.model.attribute import Draft, Schema
from earmark.model.columns import Bounds, prepare_columns
from earmark.model.evaluate import near_misses, score_matches
from earmark.model.event import SchemaChange, encode_events, repeated
from earmark.model.explain import (
    Explanation,
    NearMiss,
    clause_texts,
    condition_text,
    explain_clause,
    explain_slot,
)
from earmark.model.files import DAMAGE, open_whole, save_stored
from earmark.model.frames import as_arrow, encode_frame, is_frame
from earmark.model.intake import Prepared, admit, prepare, rows_of_frame, without_row
from earmark.model.predicate import Condition
from earmark.model.stored import stored_of
from earmark.model.subscription import Subscription, checked_id, checked_tags, still_used
from earmark.model.table import NO_TAGS, Id, Table, TableView, Tags
from earmark.model.widen import weights_of, widen
from earmark.progress import track

if TYPE_CHECKING:
    import pyarrow as pa

    from earmark.cover.audit import Audit, Relations

R = TypeVar("R")
Event = Mapping[str, Any]
Weights = Mapping[str, float]
DEFAULT_INDEX = "be_star_tree"
_KEEP: Any = object()
_SMALLEST_COMPACTION = 1024


class Match(NamedTuple):
    """One ranked result."""

    id: Id
    score: float


class _State:
    """What readers see, published by one store."""

    __slots__ = ("_alive", "index", "view")

    def __init__(self, view: TableView, index: Live) -> None:
        self.view = view
        self.index = index
        self._alive: U64 | None = None

    def alive(self) -> U64:
        """The bitmap of living slots; made when first asked for."""
        if self._alive is None:
            self._alive = self.view.eligible()
        return self._alive


class Matcher:
    """Standing subscriptions, and the search for those that an event matches."""

    def __init__(
        self,
        index: str = DEFAULT_INDEX,
        attributes: Mapping[str, str] | None = None,
        zone: str = "UTC",
        *,
        index_options: Mapping[str, Any] | None = None,
    ) -> None:
        """An empty matcher.

        `index` names the structure that searches, and `index_options` are its own (its page in docs/papers has them);
        `attributes` declares types (others are learned); `zone` is where timestamps without a zone are read.
        """
        self._build = indexes.builder(index, index_options)
        self.index = index
        schema = Schema(zone)
        if attributes is not None and not isinstance(attributes, Mapping):
            raise EarmarkError(f"attributes map names to types, such as {{'age': 'integer'}}; got {attributes!r}")
        schema.declare(attributes or {})
        self._writing = RLock()
        self._lock = RLock()
        self._table = Table(schema)
        self._state: _State
        self._indexed: tuple[Table, int] | None = None
        self._id_column: tuple[list[Id], Any] = ([], None)
        self._related: Relations | None = None
        self._publish()

    def _publish(self, removed: I32 = NO_SLOTS) -> None:
        """Let readers see the table as it is; since the last time, these slots of it were removed."""
        view = self._table.view()
        generation = (self._table, self._table.generation)
        if generation == self._indexed:
            live = self._state.index.follow(view.arrays, removed)
        else:
            live = Live.built(self._build, view.arrays)
        self._state, self._indexed = _State(view, live), generation

    # --- subscriptions ---------------------------------------------------------------------------------------

    def add(
        self,
        id: Id,
        condition: str | Condition,
        *,
        weights: Weights | None = None,
        score: float = 0.0,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Add one subscription; its id must be new."""
        self._add(lambda table: prepare(table, [Subscription(id, condition, weights, score, tags)]), single=True)

    def add_many(self, subscriptions: Any, *, bounds: Bounds | None = None, progress: bool | None = None) -> int:
        """Add a batch, all or none; returns how many.

        Takes (id, condition) pairs, mappings or Subscriptions; or an Arrow table, pandas or polars frame with columns
        `id` and `condition` (and `weights`, `score`, `tags`); or one with ready-made bounds: a column `ranges`, or
        pairs of columns `age_lo`, `age_hi`, or as `bounds={"age": ("min_age", "max_age")}` names them; or what
        `to_arrow` gave. Shows progress on a terminal.
        """
        if bounds is not None and not (is_frame(subscriptions) and isinstance(bounds, Mapping)):
            raise SubscriptionError(
                "bounds map attributes to pairs of a frame's columns: {'age': ('min_age', 'max_age')}"
            )
        if not is_frame(subscriptions):
            if not isinstance(subscriptions, Iterable):
                raise SubscriptionError(f"subscriptions are a sequence or a frame; got {type(subscriptions).__name__}")
            # Read before the lock is taken: an iterator may itself use this matcher.
            items = subscriptions if isinstance(subscriptions, list | tuple) else list(subscriptions)
            return self._add(lambda table: prepare(table, track(items, len(items), "adding", progress)))
        frame = as_arrow(subscriptions)
        if len(set(frame.column_names)) < len(frame.column_names):
            raise SubscriptionError(f"the frame has two columns of one name: {', '.join(frame.column_names)}")
        if arrow.is_native(frame):
            return self._add(lambda table: arrow.prepare_native(table, frame))
        if "condition" in frame.column_names and bounds is None:
            if "id" not in frame.column_names:
                raise SubscriptionError(f"the frame has no column 'id'; its columns are {frame.column_names}")
            return self._add(
                lambda table: prepare(table, track(rows_of_frame(frame), frame.num_rows, "adding", progress))
            )
        return self._add(lambda table: prepare_columns(table, frame, bounds))

    def _add(self, make: Callable[[Table], Prepared], single: bool = False) -> int:
        with self._writing:
            try:
                prepared = self._with_schema_changes(lambda: make(self._table))
            except EarmarkError as problem:
                raise (without_row(problem) if single else problem) from None
            with self._lock:
                block = admit(self._table, prepared)
                self._table.append(block, block.arrays.sequence if len(block.arrays.sequence) else None)
                self._publish()
            return len(prepared.ids)

    def remove(self, id: Id) -> None:
        """Remove one subscription by id."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove subscriptions by id, all or none; returns how many."""
        with self._writing, self._lock:
            if isinstance(ids, str) or not isinstance(ids, Iterable):
                raise SubscriptionError(f"ids are a sequence of texts or integers; got {ids!r}")
            chosen = [checked_id(one) for one in ids]
            for row, one in enumerate(chosen):
                if one not in self._table.slot_of:
                    raise SubscriptionError(f"row {row}: there is no subscription {one!r} to remove")
            if len(set(chosen)) < len(chosen):
                raise SubscriptionError("an id is given twice")
            slots = np.array([self._table.slot_of[one] for one in chosen], np.int32)
            self._table.remove(chosen)
            self._compact_if_worth()
            self._publish(slots)
            return len(chosen)

    def update(
        self,
        id: Id,
        condition: str | Condition = _KEEP,
        *,
        weights: Weights | None = _KEEP,
        score: float = _KEEP,
        tags: Mapping[str, str] | None = _KEEP,
    ) -> None:
        """Change a subscription in one step; what is not given stays, and so does its place in the order."""
        with self._writing:
            old = self.get(id)
            if weights is _KEEP:
                weights = old.weights if condition is _KEEP else still_used(old.weights, condition)
            new = Subscription(
                old.id,
                old.condition if condition is _KEEP else condition,
                weights,
                old.score if score is _KEEP else score,
                old.tags if tags is _KEEP else tags,
            )
            try:
                prepared = self._with_schema_changes(lambda: prepare(self._table, [new], replacing=True))
            except EarmarkError as problem:
                raise without_row(problem) from None
            with self._lock:
                slot = self._table.slot_of[old.id]
                self._table.replace(old.id, admit(self._table, prepared))
                self._compact_if_worth()
                self._publish(np.array([slot], np.int32))

    def compact(self) -> None:
        """Give back the room of removed subscriptions. Happens by itself when they outnumber the living."""
        with self._writing, self._lock:
            self._table = self._table.compacted()
            self._publish()

    def _compact_if_worth(self) -> None:
        dead = self._table.slots - len(self._table)
        if dead > (max(_SMALLEST_COMPACTION, len(self._table)) if len(self._table) else 0):
            self._table = self._table.compacted()

    def _with_schema_changes(self, attempt: Callable[[], R]) -> R:
        """Do it; where it asks for a type to be learned or widened, do that first. If it fails, nothing has changed."""
        try:
            return attempt()
        except SchemaChange as change:
            first = change
        with self._writing:
            before = self._table.mark()
            try:
                self._change_schema(first)
                while True:  # each change fixes a type or widens it, so this ends
                    try:
                        return attempt()
                    except SchemaChange as change:
                        self._change_schema(change)
            except EarmarkError:
                with self._lock:
                    self._table = before.restored()
                    self._publish()
                raise

    def _change_schema(self, change: SchemaChange) -> None:
        with self._lock:
            attribute = self._table.schema.by_name.get(change.attribute.name, change.attribute)
            if attribute.type is None:
                draft = Draft(self._table.schema)
                draft.set_type(draft.get(attribute.name), change.type, change.origin)
                draft.commit()
            elif attribute == change.attribute:
                table = self._table if self._table.slots == len(self._table) else self._table.compacted()
                widen(table, attribute, change.origin)  # what the removed asked does not stand in the way
                self._table = table
            self._publish()

    # --- looking at them -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions are live."""
        return self._state.view.live

    def __contains__(self, id: object) -> bool:
        """Whether a subscription is live."""
        with self._lock:
            return isinstance(id, Hashable) and id in self._table.slot_of

    def __repr__(self) -> str:
        return f"<Matcher: {len(self):,} subscriptions, index {self.index!r}>"

    def ids(self) -> list[Id]:
        """The live ids in order of insertion."""
        view = self._state.view
        return [view.ids[slot] for slot in view.live_slots().tolist()]

    def get(self, id: Id) -> Subscription:
        """A subscription as it was given."""
        view, slot = self._find(id)
        names = view.schema.names
        weights = {names[n]: w for n, w in weights_of(view, slot).items() if w != 1.0}
        score = float(view.arrays.score[slot]) if len(view.arrays.score) else 0.0
        return Subscription(
            view.ids[slot], condition_text(view, slot), weights or None, score, dict(view.tags(slot)) or None
        )

    def _find(self, id: Id) -> tuple[TableView, int]:
        with self._lock:
            slot = self._table.slot_of.get(checked_id(id))
            if slot is None:
                raise SubscriptionError(f"there is no subscription {id!r}")
            return self._state.view, slot

    def never_matching(self) -> list[Id]:
        """Ids of subscriptions that no event can match, such as `a < 3 AND a > 5`; in order of insertion."""
        view = self._state.view
        table = view.arrays
        empty = (np.diff(table.interval_start) == 0) & (table.accepts_null == 0)
        broken = np.zeros(len(table.constraint_start) - 1, bool)
        clause_of = np.searchsorted(table.constraint_start, np.flatnonzero(empty), "right") - 1
        broken[clause_of] = True
        good = np.zeros(view.slots, bool)
        good[np.searchsorted(table.clause_start, np.flatnonzero(~broken), "right") - 1] = True
        return [view.ids[slot] for slot in view.live_slots().tolist() if not good[slot]]

    def audit(self, *, scope: Mapping[str, str] | None = None) -> Audit:
        """Duplicates, covered subscriptions, clauses that never match, subscriptions that match everything.

        From the conditions alone; `scope` restricts it to subscriptions with these tags. docs/hygiene.md.
        """
        from earmark.cover.audit import audit

        state = self._state
        return audit(state.view, self._eligible(state, scope))

    def covered_by(self, id: Id) -> list[Id]:
        """The subscriptions that every event of this one matches too, in order of insertion. O(subscriptions)."""
        return self._relations(id, lambda relations, slot: relations.covered_by(slot))

    def covers(self, id: Id) -> list[Id]:
        """The subscriptions all of whose events match this one, in order of insertion. O(subscriptions)."""
        return self._relations(id, lambda relations, slot: relations.covers(slot))

    def _relations(self, id: Id, ask: Callable[[Relations, int], list[Id]]) -> list[Id]:
        from earmark.cover.audit import Relations

        view, slot = self._find(id)
        if self._related is None or self._related.view is not view:  # kept for the next question
            self._related = Relations(view)
        return ask(self._related, slot)

    def adapt(self, events: Any) -> Any:
        """Let the index learn from past events, such as the last thousand, and say what it did.

        'be_star_tree' and 'mics' adapt; others do not, and say so. Searches go on with the index as it was meanwhile.
        """
        with self._writing:
            state, encoded = self._encoded(events)
            live, found = state.index.adapted(encoded)
            self._state = _State(state.view, live)
        return found

    def stats(self) -> dict[str, Any]:
        """Counts, types and sizes, for people and monitoring."""
        state = self._state
        view = state.view
        return {
            "subscriptions": view.live,
            "removed": view.slots - view.live,
            "clauses": len(view.arrays.constraint_start) - 1,
            "constraints": len(view.arrays.attr),
            "intervals": len(view.arrays.lo),
            "attributes": {a.name: str(a.type) if a.type else None for a in view.schema},
            "index": self.index,
            "index_tail": state.index.tail,
            "table_bytes": view.nbytes,
            "index_bytes": state.index.nbytes,
            "index_about": state.index.about(),
            "asked_bytes": view.asked_bytes.nbytes + view.asked_start.nbytes,
            "generation": view.generation,
        }

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, event: Event, *, scope: Mapping[str, str] | None = None) -> list[Id]:
        """The ids of all subscriptions that an event matches, in order of insertion.

        `scope` restricts the search to subscriptions with these tags.
        """
        state, events = self._encoded([event])
        slots = state.index.match(events, self._eligible(state, scope))
        return self._named(state.view, _in_order(state.view, slots))

    def top_k(
        self,
        event: Event,
        k: int = 10,
        *,
        mode: str = "exact",
        weights: Weights | None = None,
        scope: Mapping[str, str] | None = None,
    ) -> list[Match]:
        """The k best subscriptions for an event, by score, then order of insertion.

        `mode` "exact" ranks those that match; "relaxed" those of which at least one constraint holds. `weights` are
        the event's, by attribute.
        """
        state, events = self._encoded([event], [weights] if weights is not None else None)
        slots, scores = state.index.top_k(events, _checked_k(k), self._eligible(state, scope), _relaxed(mode))
        return [Match(i, s) for i, s in zip(self._named(state.view, slots), scores.tolist(), strict=True)]

    def match_batch(self, events: Any, *, scope: Mapping[str, str] | None = None) -> pa.Table:
        """All matches of many events, as an Arrow table (event, subscription, score).

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame; `event` is the
        row number.
        """
        state, encoded = self._encoded(events)
        starts, slots = state.index.match_batch(encoded, self._eligible(state, scope))
        if not state.view.ordered:
            slots = _each_in_order(state.view, starts, slots)
        scores = np.empty(len(slots), np.float64)
        score_matches(state.view.arrays, encoded, starts, slots, scores)
        return self._result(state.view, starts, slots, scores)

    def top_k_batch(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: str = "exact",
        weights: Weights | Iterable[Weights | None] | None = None,
        scope: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """The k best for each of many events, best first, as an Arrow table (event, subscription, score).

        `weights` is one mapping for all events, or one for each.
        """
        state, encoded = self._encoded(events, weights)
        starts, slots, scores = state.index.top_k_batch(
            encoded, _checked_k(k), self._eligible(state, scope), _relaxed(mode)
        )
        return self._result(state.view, starts, slots, scores)

    def explain(self, id: Id, event: Event, *, weights: Weights | None = None) -> Explanation:
        """Why a subscription matches an event or not: each constraint, what it asked, what it got."""

        def attempt() -> Explanation:
            view, slot = self._find(id)
            return explain_slot(view, slot, encode_events(view.schema, [event], [weights]), event)

        return self._with_schema_changes(attempt)

    def near_misses(
        self, event: Event, missing: int = 1, *, limit: int | None = None, scope: Mapping[str, str] | None = None
    ) -> list[NearMiss]:
        """Subscriptions that do not match but would if at most `missing` constraints of one clause held.

        Nearest first, then in order of insertion; each once, by its nearest clause; `limit` keeps the first so many.
        """
        if isinstance(missing, bool) or not isinstance(missing, int) or missing < 1:
            raise EarmarkError(f"missing is a number of constraints, 1 or more; got {missing!r}")
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise EarmarkError(f"limit is a number of results; got {limit!r}")
        state, events = self._encoded([event])
        view = state.view
        slots, failures, clauses = _nearest(view, events, self._eligible(state, scope), missing)
        order = np.lexsort((view.arrays.sequence[slots], failures))[:limit]
        found = []
        for slot, clause in zip(slots[order].tolist(), clauses[order].tolist(), strict=True):
            asked = clause_texts(view, slot)[clause - int(view.arrays.clause_start[slot])]
            failing = explain_clause(view, slot, clause, asked, events, event).failing()
            found.append(NearMiss(view.ids[slot], failing))
        return found

    def verify(self, events: Any) -> Verification:
        """Check the index against a row-by-row evaluation of every subscription, on these events.

        Fit for production: it only reads. O(events x subscriptions).
        """
        state, encoded = self._encoded(events)
        return compare(state.index, state.view, encoded, state.alive())

    # --- files and frames ------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the subscriptions and their index to a folder; `load` opens it. A table that is there is replaced."""
        with self._writing:
            state, table = self._state, self._table.compacted()
            view = state.view
            same = view.live == view.slots and view.ordered and table.schema is self._table.schema
            index = state.index.main if same and not state.index.tail else self._build(table.view().arrays)
            options = {"index": self.index}
            save_stored(stored_of(table)._replace(options=options, extras=indexes.stored(index)), folder)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        index: str | None = None,
        index_options: Mapping[str, Any] | None = None,
        mmap: bool = True,
    ) -> Matcher:
        """The matcher that was saved to a folder; with `mmap` its arrays are mapped, not read.

        The saved index is used as it is, unless another is asked for: then that one is built. `index_options` are not
        saved: give them again where later builds are to have them.
        """
        table, stored = open_whole(folder, mmap)
        saved = str(stored.options.get("index", DEFAULT_INDEX))
        made = cls(index or saved, index_options=index_options)
        made._table = table
        if made.index == saved and stored.extras:
            try:
                main = indexes.restore(saved, table.view().arrays, stored.extras)
            except DAMAGE as problem:
                raise TableError(f"the index of the table {str(folder)!r} is damaged: {problem}") from None
            made._state = _State(table.view(), Live.built(made._build, table.view().arrays, main))
            made._indexed = (table, table.generation)
        else:
            made._publish()
        return made

    def to_arrow(self) -> pa.Table:
        """All live subscriptions as an Arrow table, without loss: `add_many` takes it back."""
        with self._writing:
            return arrow.to_arrow(self._table)

    # --- inside ----------------------------------------------------------------------------------------------

    def _encoded(self, events: Any, weights: Any = None) -> tuple[_State, EventArrays]:
        """The events as keys, with the state whose keys they are."""
        frame = as_arrow(events) if is_frame(events) else None
        if frame is None:
            events = _listed(events)
        count = len(events) if frame is None else frame.num_rows
        weights = repeated(weights, count)

        def attempt() -> tuple[_State, EventArrays]:
            state = self._state
            if frame is None:
                return state, encode_events(state.view.schema, events, weights)
            return state, encode_frame(state.view.schema, frame, weights)

        return self._with_schema_changes(attempt)

    def _eligible(self, state: _State, scope: Mapping[str, str] | None) -> Any:
        tags: Tags = checked_tags(scope, "a scope maps") if scope is not None else NO_TAGS
        return state.view.eligible(tags) if tags else state.alive()

    @staticmethod
    def _named(view: TableView, slots: I32) -> list[Id]:
        return [view.ids[slot] for slot in slots.tolist()]

    def _result(self, view: TableView, starts: I64, slots: I32, scores: F64) -> pa.Table:
        import pyarrow as pa

        events = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
        return pa.table({"event": events, "subscription": self._ids_of(view).take(pa.array(slots)), "score": scores})

    def _ids_of(self, view: TableView) -> pa.Array:
        """The ids by slot as an Arrow column, kept between calls."""
        import pyarrow as pa

        ids, (source, column) = view.ids, self._id_column
        kind = pa.int64() if ids and isinstance(ids[0], int) else pa.string()
        if source is not ids or column.type != kind:
            column = pa.array(ids[: view.slots], kind)
        elif len(column) < view.slots:
            column = pa.concat_arrays([column, pa.array(ids[len(column) : view.slots], kind)])
        self._id_column = (ids, column)
        return column


def _listed(events: Any) -> Sequence[Any]:
    if isinstance(events, Mapping) or not isinstance(events, Iterable):
        raise EventError(f"a batch is a sequence of events or a frame; got one {type(events).__name__}")
    return events if isinstance(events, Sequence) else list(events)


def _checked_k(k: Any) -> int:
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise EarmarkError(f"k is a number of results, 1 or more; got {k!r}")
    return int(k)


def _relaxed(mode: str) -> bool:
    if mode not in ("exact", "relaxed"):
        raise EarmarkError(f"mode is 'exact' or 'relaxed'; got {mode!r}")
    return mode == "relaxed"


def _in_order(view: TableView, slots: I32) -> I32:
    return slots if view.ordered else slots[np.argsort(view.arrays.sequence[slots], kind="stable")]


def _each_in_order(view: TableView, starts: I64, slots: I32) -> I32:
    events = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return frozen(slots[np.lexsort((view.arrays.sequence[slots], events))])


def _nearest(view: TableView, events: EventArrays, eligible: Any, missing: int) -> tuple[I32, I32, I32]:
    size = max(bits.count(eligible), 1)
    slots, failures, clauses = (np.empty(size, np.int32) for _ in range(3))
    found, _ = near_misses(view.arrays, events, 0, eligible, missing, 0, slots, failures, clauses)
    return slots[:found], failures[:found], clauses[:found]
