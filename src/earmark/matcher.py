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
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from earmark import index as indexes
from earmark.errors import EarmarkError, EventError, SubscriptionError, TableError
from earmark.index.contract import Adaptation
from earmark.index.given import Mode, asked_k, asked_relaxed
from earmark.index.live import NO_SLOTS, Live
from earmark.index.state import State
from earmark.index.verify import Verification, compare
from earmark.locks import remade_rlock
from earmark.model import arrow
from earmark.model.arrays import F64, I32, I64, EventArrays
from earmark.model.attribute import Draft, Schema
from earmark.model.columns import Bounds
from earmark.model.evaluate import score_matches
from earmark.model.event import SchemaChange, encode_events, repeated
from earmark.model.explain import Explanation, NearMiss, condition_text, explain_slot, near_misses, never_matching
from earmark.model.files import DAMAGE, open_whole, save_stored
from earmark.model.forms import reader_of
from earmark.model.frames import as_arrow, encode_frame, is_frame
from earmark.model.intake import Prepared, admit, prepare, without_row
from earmark.model.predicate import Condition
from earmark.model.stats import Stats
from earmark.model.stored import stored_of
from earmark.model.subscription import Subscription, checked_id, still_used
from earmark.model.table import Id, Table, TableView
from earmark.model.widen import weights_of, widen

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
        self._writing = remade_rlock()
        self._lock = remade_rlock()
        self._table = Table(schema)
        self._state: State
        self._indexed: tuple[Table, int] | None = None
        self._id_column = arrow.IdColumn()
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
        self._state, self._indexed = State(view, live, self.index), generation

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
        return self._add(reader_of(subscriptions, bounds, progress))

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
        return never_matching(self._state.view)

    def audit(self, *, scope: Mapping[str, str] | None = None) -> Audit:
        """Duplicates, covered subscriptions, clauses that never match, subscriptions that match everything.

        From the conditions alone; `scope` restricts it to subscriptions with these tags. docs/hygiene.md.
        """
        from earmark.cover.audit import audit

        state = self._state
        return audit(state.view, state.eligible(scope))

    def covered_by(self, id: Id) -> list[Id]:
        """The subscriptions that every event of this one matches too, in order of insertion.

        O(subscriptions) for the first questions after a change; an index is made when many are asked.
        """
        return self._relations(id, lambda relations, slot: relations.covered_by(slot))

    def covers(self, id: Id) -> list[Id]:
        """The subscriptions all of whose events match this one, in order of insertion. Costs as `covered_by`."""
        return self._relations(id, lambda relations, slot: relations.covers(slot))

    def _relations(self, id: Id, ask: Callable[[Relations, int], list[Id]]) -> list[Id]:
        from earmark.cover.audit import Relations

        view, slot = self._find(id)
        if self._related is None or self._related.view is not view:  # kept for the next question
            self._related = Relations(view)
        return ask(self._related, slot)

    def adapt(self, events: Any) -> Adaptation:
        """Let the index learn from past events, such as the last thousand, and say what it did.

        'be_star_tree' and 'mics' adapt; others do not, and say so. Searches go on with the index as it was meanwhile.
        """
        with self._writing:
            state, encoded = self._encoded(events)
            found: Adaptation
            live, found = state.index.adapted(encoded)
            self._state = State(state.view, live, self.index)
        return found

    def stats(self) -> Stats:
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
        return self._named(state.view, state.match(events, state.eligible(scope)))

    def top_k(
        self,
        event: Event,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | None = None,
        scope: Mapping[str, str] | None = None,
        index: str | None = None,
    ) -> list[Match]:
        """The k best subscriptions for an event, by score, then order of insertion.

        `mode` "exact" ranks those that match; "relaxed" those of which at least one constraint holds. `weights` are
        the event's, by attribute. `index` names another structure than the matcher's own to search with; the answers
        are the same. It is built when first asked for, with its default options, and kept beside the matcher's own, in
        memory of its own, until something changes (a subscription, a type that an event teaches, `adapt`, `compact`):
        where changes are frequent, rather make the matcher with that index, which then follows them.
        """
        state, events = self._encoded([event], [weights] if weights is not None else None)
        asked = asked_k(k), state.eligible(scope), asked_relaxed(mode)
        slots, scores = state.ranked_by(index).top_k(events, *asked)
        return [Match(i, s) for i, s in zip(self._named(state.view, slots), scores.tolist(), strict=True)]

    def match_many(self, events: Any, *, scope: Mapping[str, str] | None = None) -> pa.Table:
        """All matches of many events, as an Arrow table (event, subscription, score).

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame; `event` is the
        row number.
        """
        state, encoded = self._encoded(events)
        starts, slots = state.match_many(encoded, state.eligible(scope))
        scores = np.empty(len(slots), np.float64)
        score_matches(state.view.arrays, encoded, starts, slots, scores)
        return self._result(state.view, starts, slots, scores)

    def top_k_many(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | Iterable[Weights | None] | None = None,
        scope: Mapping[str, str] | None = None,
        index: str | None = None,
    ) -> pa.Table:
        """The k best for each of many events, best first, as an Arrow table (event, subscription, score).

        `weights` is one mapping for all events, or one for each; the rest as for `top_k`.
        """
        state, encoded = self._encoded(events, weights)
        asked = asked_k(k), state.eligible(scope), asked_relaxed(mode)
        starts, slots, scores = state.ranked_by(index).top_k_many(encoded, *asked)
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
        return near_misses(state.view, events, event, state.eligible(scope), missing, limit)

    def verify(self, events: Any) -> Verification:
        """Check the index against a row-by-row evaluation of every subscription, on these events.

        Fit for production: it only reads. O(events x subscriptions).
        """
        state, encoded = self._encoded(events)
        return compare(state.index, state.view, encoded, state.eligible())

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
            made._state = State(table.view(), Live.built(made._build, table.view().arrays, main), saved)
            made._indexed = (table, table.generation)
        else:
            made._publish()
        return made

    def to_arrow(self) -> pa.Table:
        """All live subscriptions as an Arrow table, without loss: `add_many` takes it back."""
        with self._writing:
            return arrow.to_arrow(self._table)

    # --- inside ----------------------------------------------------------------------------------------------

    def _encoded(self, events: Any, weights: Any = None) -> tuple[State, EventArrays]:
        """The events as keys, with the state whose keys they are."""
        frame = as_arrow(events) if is_frame(events) else None
        if frame is None:
            events = _listed(events)
        count = len(events) if frame is None else frame.num_rows
        weights = repeated(weights, count)

        def attempt() -> tuple[State, EventArrays]:
            state = self._state
            if frame is None:
                return state, encode_events(state.view.schema, events, weights)
            return state, encode_frame(state.view.schema, frame, weights)

        return self._with_schema_changes(attempt)

    @staticmethod
    def _named(view: TableView, slots: I32) -> list[Id]:
        return [view.ids[slot] for slot in slots.tolist()]

    def _result(self, view: TableView, starts: I64, slots: I32, scores: F64) -> pa.Table:
        import pyarrow as pa

        events = np.repeat(np.arange(len(starts) - 1, dtype=np.int64), np.diff(starts))
        named = self._id_column.of(view).take(pa.array(slots))
        return pa.table({"event": events, "subscription": named, "score": scores})


def _listed(events: Any) -> Sequence[Any]:
    if isinstance(events, Mapping) or not isinstance(events, Iterable):
        raise EventError(f"a batch is a sequence of events or a frame; got one {type(events).__name__}")
    return events if isinstance(events, Sequence) else list(events)
