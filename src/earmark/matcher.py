"""Matcher: the engine a user holds.

    m = Matcher()
    m.add("ad-17", "credit_score > 650 AND age BETWEEN 22 AND 36")
    m.match({"credit_score": 732, "age": 27})          # ['ad-17']

Threads: any number of threads may search while one or more add, remove and update. Writers take turns (`_writing`).
They make another table and another index beside those that readers use, and publish both by one store (`_publish`),
the only commit point: whatever fails before it, by any exception at any line, has changed nothing. A search takes the
published state and works on that alone, so it sees all of a change or nothing of it, and never waits for a writer.
Searching changes nothing: types and keys come from conditions and declarations.

Results are deterministic: matches in order of insertion; ranked results by score, then order of insertion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from earmark import index as indexes
from earmark.engine.batches import Batch, BatchSearch, OnError, check_on_error, read, reader
from earmark.engine.live import NO_SLOTS, Live
from earmark.engine.probes import check_answers
from earmark.engine.state import State
from earmark.engine.verify import Verification, compare
from earmark.errors import EarmarkError, EventError, SubscriptionError, TableError
from earmark.events.arrays import EventArrays
from earmark.events.mappings import Reject, encode_events
from earmark.flat.types import I32
from earmark.index.contract import Adaptation
from earmark.index.given import Mode
from earmark.keys.schema import Draft, Schema
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.locks import remade_rlock
from earmark.segment import arrow
from earmark.segment.columns import Bounds
from earmark.segment.explain import Explanation, NearMiss, explain_slot, near_misses, never_matching
from earmark.segment.files import DAMAGE, open_whole, save_stored
from earmark.segment.forms import reader_of
from earmark.segment.intake import Prepared, admitted, prepare, replaced, revalued
from earmark.segment.plain import subscription_at, to_frame
from earmark.segment.retype import retyped
from earmark.segment.seen import Seen, Unseen
from earmark.segment.stats import AttributeInfo, Stats
from earmark.segment.stored import stored_of
from earmark.segment.subscription import Subscription, checked_id, still_used, with_params
from earmark.segment.table import Id, Table

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
        strict: bool = False,
        nan: Literal["value", "null"] = "value",
        index_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Make an empty matcher.

        `index` names the structure that searches, and `index_options` are its own (its page in docs/papers has them);
        `attributes` declares types (others are learned); `zone` is where timestamps without a zone are read. With
        `strict`, conditions may use declared attributes only. `nan="null"` takes an event's NaN for NULL, as mappings
        made from pandas frames mean it; by default NaN is a number above all others, as in Spark.
        """
        self._build = indexes.builder(index, index_options)
        self._options = dict(index_options or {})
        self.index = index
        if nan not in ("value", "null"):
            raise EarmarkError(f"expected 'value' or 'null' for nan, got {nan!r}")
        schema = Schema(zone, strict=strict, nan_is_null=nan == "null")
        schema.declare({} if attributes is None else attributes)
        self._writing = remade_rlock()
        self._id_column = arrow.IdColumn()
        self._related: Relations | None = None
        self._seen = Seen()
        table = Table.empty(schema)
        self._state = State(table, Live.built(self._build, table.arrays), index)

    @property
    def _table(self) -> Table:
        return self._state.table

    def _publish(self, table: Table, removed: I32 = NO_SLOTS) -> None:
        """Let readers see a table; of the slots that the last one had, these were removed."""
        state = self._state
        dead = table.slots - table.live
        if dead > (max(_SMALLEST_COMPACTION, table.live) if table.live else 0):
            table = table.compacted()
        if table.generation == state.table.generation:
            live = state.index.follow(table.arrays, removed)
        else:
            live = Live.built(self._build, table.arrays)
        self._state = State(table, live, self.index)  # the commit point

    # --- subscriptions ---------------------------------------------------------------------------------------

    def add(
        self,
        id: Id,
        condition: str | Condition,
        *,
        weights: Weights | None = None,
        score: float = 0.0,
        tags: Mapping[str, str] | None = None,
        params: Params | None = None,
    ) -> None:
        """Add one subscription; its id must be new.

        `params` are the values of the parameters in the condition: a sequence for `?`, a mapping for `:name`.
        """
        given = Subscription(id, condition, weights, score, tags, params)
        self._add(lambda table: prepare(table, [given], numbered=False))

    def add_many(self, subscriptions: Any, *, bounds: Bounds | None = None, progress: bool | None = None) -> int:
        """Add a batch, all or none; returns how many.

        Takes (id, condition) pairs, mappings or Subscriptions; or an Arrow table, pandas or polars frame with columns
        `id` and `condition` (and `weights`, `score`, `tags`); or one with ready-made bounds: a column `ranges`, or
        pairs of columns `age_lo`, `age_hi`, or as `bounds={"age": ("min_age", "max_age")}` names them; or what
        `to_frame` or `to_arrow` gave. Shows progress on a terminal. An error lists the rows that cannot be added.
        """
        return self._add(reader_of(subscriptions, bounds, progress))

    def _add(self, make: Callable[[Table], Prepared]) -> int:
        with self._writing:
            table = self._state.table
            prepared = make(table)
            self._publish(admitted(table, prepared))
            return len(prepared.ids)

    def remove(self, id: Id) -> None:
        """Remove one subscription by id."""
        with self._writing:
            table = self._state.table
            slot = table.find(checked_id(id))
            if slot is None:
                raise SubscriptionError(f"there is no subscription {id!r} to remove")
            self._remove(table, [slot])

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove subscriptions by id, all or none; returns how many."""
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            raise SubscriptionError(f"expected a sequence of ids, got {ids!r}")
        chosen = [checked_id(one) for one in ids]
        with self._writing:
            table = self._state.table
            slots = [table.find(one) for one in chosen]
            for row, (one, slot) in enumerate(zip(chosen, slots, strict=True)):
                if slot is None:
                    raise SubscriptionError(f"there is no subscription {one!r} to remove", row=row)
            if len(set(chosen)) < len(chosen):
                raise SubscriptionError("an id is given twice")
            self._remove(table, [slot for slot in slots if slot is not None])
            return len(chosen)

    def _remove(self, table: Table, slots: list[int]) -> None:
        gone = np.array(slots, np.int64)
        self._publish(table.removed(gone), gone.astype(np.int32))

    def update(
        self,
        id: Id,
        condition: str | Condition = _KEEP,
        *,
        weights: Weights | None = _KEEP,
        score: float = _KEEP,
        tags: Mapping[str, str] | None = _KEEP,
        params: Params | None = None,
    ) -> None:
        """Change a subscription in one step; what is not given stays, and so does its place in the order.

        `params` are the values of the parameters in the new condition.
        """
        with self._writing:
            table = self._state.table
            old = self.get(id)
            if params is not None:
                if condition is _KEEP:
                    raise SubscriptionError("params need a condition with parameters, got none")
                condition = with_params(condition, params)
            if weights is _KEEP:
                weights = old.weights if condition is _KEEP else still_used(old.weights, condition)
            new = Subscription(
                old.id,
                old.condition if condition is _KEEP else condition,
                weights,
                old.score if score is _KEEP else score,
                old.tags if tags is _KEEP else tags,
            )
            slot = table.find(old.id)
            assert slot is not None, "it was found above, and writers take turns"
            if condition is _KEEP:
                table = revalued(table, slot, new)
            else:
                table = replaced(table, np.array([slot]), [new])
            self._publish(table, np.array([slot], np.int32))

    def compact(self) -> None:
        """Give back the room of removed subscriptions. Happens by itself when they outnumber the living."""
        with self._writing:
            self._publish(self._state.table.compacted())

    # --- types -----------------------------------------------------------------------------------------------

    @property
    def attributes(self) -> dict[str, AttributeInfo]:
        """The attributes by name: type, declared or learned, and who was first to use it so."""
        table = self._state.table
        return {
            a.name: AttributeInfo(str(a.type) if a.type else None, a.declared, a.origin or None, int(table.uses[n]))
            for n, a in enumerate(table.schema)
        }

    def declare(self, attributes: Mapping[str, str]) -> None:
        """Fix the types of attributes that have none yet, or make learned ones lasting; all or none."""
        with self._writing:
            table = self._state.table
            draft = Draft(table.schema)
            draft.declare(attributes)
            self._publish(table.with_schema(draft.commit()))

    def retype(self, name: str, type: str) -> None:
        """Give an attribute another type, as if it had been declared so from the start.

        An error names the subscriptions whose conditions do not fit the type. O(subscriptions that use the attribute).
        """
        with self._writing:
            self._publish(retyped(self._state.table, name, type))

    def unseen_attributes(self) -> Unseen:
        """The attributes that conditions use and no recent event had, and the fields of events that no condition uses.

        Recent are the last hundred thousand events or so that this matcher was asked about. O(subscriptions).
        """
        return self._seen.unseen(self._state.table)

    # --- looking at them -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions are live."""
        return self._state.table.live

    def __contains__(self, id: object) -> bool:
        """Whether a subscription is live."""
        try:
            self._find(checked_id(id))
        except SubscriptionError:
            return False
        return True

    def __repr__(self) -> str:
        return f"<Matcher: {len(self):,} subscriptions, index {self.index!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the subscriptions and the options; the index is built again."""
        with self._writing:
            schema = self._state.table.schema
            given = (self.index, schema.zone_name, schema.strict, schema.nan_is_null, self._options)
            return _unpickled, (*given, arrow.to_bytes(arrow.to_arrow(self._state.table)))

    def ids(self) -> list[Id]:
        """The live ids in order of insertion."""
        table = self._state.table
        return [table.ids[slot] for slot in table.live_slots().tolist()]

    def get(self, id: Id) -> Subscription:
        """A subscription as it was given."""
        return subscription_at(*self._find(id))

    def _find(self, id: Id) -> tuple[Table, int]:
        one = checked_id(id)
        while True:
            state = self._state
            slot = state.table.find(one)
            if slot is not None:
                return state.table, slot
            if state is self._state:  # else it may have been replaced meanwhile
                raise SubscriptionError(f"there is no subscription {id!r}")

    def never_matching(self) -> list[Id]:
        """Ids of subscriptions that no event can match, such as `a < 3 AND a > 5`; in order of insertion."""
        return never_matching(self._state.table)

    def audit(self, *, scope: Mapping[str, str] | None = None) -> Audit:
        """Duplicates, covered subscriptions, clauses that never match, subscriptions that match everything.

        From the conditions alone; `scope` restricts it to subscriptions with these tags. docs/hygiene.md.
        """
        from earmark.cover.audit import audit

        state = self._state
        return audit(state.table, state.eligible(scope))

    def covered_by(self, id: Id) -> list[Id]:
        """The subscriptions that every event of this one matches too, in order of insertion.

        O(subscriptions) for the first questions after a change; an index is made when many are asked.
        """
        return self._relations(id, lambda relations, slot: relations.covered_by(slot))

    def covers(self, id: Id) -> list[Id]:
        """The subscriptions all of whose events match this one, in order of insertion. Costs as `covered_by`."""
        return self._relations(id, lambda relations, slot: relations.covers(slot))

    def _relations(self, id: Id, ask: Callable[[Relations, int], R]) -> R:
        from earmark.cover.audit import Relations

        table, slot = self._find(id)
        related = self._related
        if related is None or related.view is not table:
            related = self._related = Relations(table)  # kept for the next question
        return ask(related, slot)

    def adapt(self, events: Any) -> Adaptation:
        """Let the index learn from past events, such as the last thousand, and say what it did.

        'be_star_tree' and 'mics' adapt; others do not, and say so. Searches go on with the index as it was meanwhile.
        """
        with self._writing:
            state, encoded = self._encoded(events)
            found: Adaptation
            live, found = state.index.adapted(encoded)
            self._state = State(state.table, live, self.index)
        return found

    def stats(self) -> Stats:
        """Counts, types and sizes, for people and monitoring."""
        state = self._state
        table = state.table
        return {
            "subscriptions": table.live,
            "removed": table.slots - table.live,
            "clauses": len(table.arrays.constraint_start) - 1,
            "constraints": len(table.arrays.attr),
            "intervals": len(table.arrays.lo),
            "attributes": {a.name: str(a.type) if a.type else None for a in table.schema},
            "index": self.index,
            "index_tail": state.index.tail,
            "table_bytes": table.nbytes,
            "index_bytes": state.index.nbytes,
            "index_about": state.index.about(),
            "asked_bytes": table.columns.asked.nbytes + table.columns.asked_start.nbytes,
            "generation": table.generation,
        }

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, event: Event, *, scope: Mapping[str, str] | None = None) -> list[Id]:
        """The ids of all subscriptions that an event matches, in order of insertion.

        `scope` restricts the search to subscriptions with these tags.
        """
        state, events = self._one(event)
        return _named(state.table, state.match(events, state.eligible(scope)))

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
        memory of its own, until a subscription changes (or `adapt`, `compact`): where changes are frequent, rather
        make the matcher with that index, which then follows them.
        """
        state, events = self._one(event, weights)
        search = BatchSearch.best(state, scope, k, mode, index)
        assert search.k is not None
        slots, scores = state.ranked_by(index).top_k(events, search.k, state.eligible(scope), search.relaxed)
        return [Match(i, s) for i, s in zip(_named(state.table, slots), scores.tolist(), strict=True)]

    def match_many(
        self,
        events: Any,
        *,
        scope: Mapping[str, str] | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
    ) -> pa.Table:
        """All matches of many events, as an Arrow table (event, subscription, score).

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame; `event` is the
        row number. `on_error` says what becomes of an event that cannot be read: "raise" an error; take what cannot be
        read of it for "null"; or "reject" the event. What was not read is added to `rejects`, if that is given.
        """
        state = self._state
        batch = read(state, events, None, on_error, rejects, self._seen)
        return BatchSearch(state, scope).whole(batch, self._id_column, "match_reader")

    def match_reader(
        self,
        events: Any,
        *,
        scope: Mapping[str, str] | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
    ) -> pa.RecordBatchReader:
        """`match_many` piece by piece, in bounded memory: an Arrow RecordBatchReader of (event, subscription, score).

        Events may also be an iterator of mappings or a RecordBatchReader, of any length. All are matched against the
        subscriptions of the moment of this call.
        """
        return self._reader(BatchSearch(self._state, scope), events, None, on_error, rejects)

    def top_k_many(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | Iterable[Weights | None] | None = None,
        scope: Mapping[str, str] | None = None,
        index: str | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
    ) -> pa.Table:
        """The k best for each of many events, best first, as an Arrow table (event, subscription, score).

        `weights` is one mapping for all events, or one for each; the rest as for `top_k` and `match_many`.
        """
        state = self._state
        search = BatchSearch.best(state, scope, k, mode, index)
        batch = read(state, events, weights, on_error, rejects, self._seen)
        return search.whole(batch, self._id_column, "top_k_reader")

    def top_k_reader(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | None = None,
        scope: Mapping[str, str] | None = None,
        index: str | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
    ) -> pa.RecordBatchReader:
        """`top_k_many` piece by piece, as `match_reader`; `weights` is one mapping for all events."""
        search = BatchSearch.best(self._state, scope, k, mode, index)
        return self._reader(search, events, weights, on_error, rejects)

    def _reader(
        self, search: BatchSearch, events: Any, weights: Any, on_error: OnError, rejects: list[Reject] | None
    ) -> pa.RecordBatchReader:
        check_on_error(on_error, rejects)

        def take(group: Any, first: int) -> Batch:
            try:
                own: list[Reject] | None = None if rejects is None else []
                batch = read(search.state, group, weights, on_error, own, self._seen)
            except EventError as problem:
                raise problem.at(event=None if problem.event is None else problem.event + first) from None
            if rejects is not None:
                rejects.extend(one._replace(event=one.event + first) for one in own or ())
            return batch

        return reader(search, self._id_column, events, take)

    def explain(self, id: Id, event: Event, *, weights: Weights | None = None) -> Explanation:
        """Why a subscription matches an event or not: each constraint, what it asked, what it got."""
        table, slot = self._find(id)
        return explain_slot(table, slot, _encoded_one(table.schema, event, weights), event)

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
        state, events = self._one(event)
        return near_misses(state.table, events, event, state.eligible(scope), missing, limit)

    def verify(self, events: Any) -> Verification:
        """Check the index against a row-by-row evaluation of every subscription, on these events.

        Fit for production: it only reads. O(events x subscriptions).
        """
        state, encoded = self._encoded(events)
        return compare(state.index, state.table, encoded, state.eligible())

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless every invariant of table and index holds. O(size)."""
        state = self._state
        state.table.check()
        state.table.check_lookups()
        state.index.check()

    # --- files and frames ------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the subscriptions and their index to a folder; `load` opens it. A table that is there is replaced."""
        with self._writing:
            state = self._state
            try:
                state.table.check()
            except AssertionError as problem:
                raise EarmarkError(f"the subscriptions are damaged, so nothing was saved: {problem}") from None
            table = state.table.compacted()
            same = state.table.live == state.table.slots and state.table.ordered and table.schema is state.table.schema
            index = state.index.main if same and not state.index.tail else self._build(table.arrays)
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
        verify: bool = False,
    ) -> Matcher:
        """The matcher that was saved to a folder; with `mmap` its arrays are mapped, not read.

        The saved index is used as it is, unless another is asked for: then that one is built. `index_options` are not
        saved: give them again where later builds are to have them. Checksums tell accidents; where somebody may have
        changed a folder and its checksums, `verify` compares the answers of the stored index with a scan.
        """
        table, stored = open_whole(folder, mmap)
        saved = str(stored.options.get("index", DEFAULT_INDEX))
        made = cls(index or saved, index_options=index_options)
        main = None
        if made.index == saved and stored.extras:
            try:
                main = indexes.restore(saved, table.arrays, stored.extras)
                if verify:
                    check_answers(main, table)
            except DAMAGE as problem:
                raise TableError(f"the index of the table {str(folder)!r} is damaged: {problem}") from None
        made._state = State(table, Live.built(made._build, table.arrays, main), made.index)
        return made

    def to_arrow(self) -> pa.Table:
        """All live subscriptions as an Arrow table, without loss: `add_many` takes it back.

        Only what keeps the table's metadata can carry it (Arrow and Parquet files do, pandas and polars do not).
        """
        return arrow.to_arrow(self._state.table)

    def to_frame(self) -> pa.Table:
        """All live subscriptions as plain columns: id, condition, weights, score, tags.

        `add_many` takes it back, also by way of pandas and polars.
        """
        return to_frame(self._state.table)

    # --- inside ----------------------------------------------------------------------------------------------

    def _one(self, event: Event, weights: Weights | None = None) -> tuple[State, EventArrays]:
        """A single event as keys, with the state whose keys they are."""
        state = self._state
        events = _encoded_one(state.table.schema, event, weights)
        self._seen.note(events.attr, 1, [event])
        return state, events

    def _encoded(self, events: Any, weights: Any = None) -> tuple[State, EventArrays]:
        """The events as keys, with the state whose keys they are."""
        state = self._state
        return state, read(state, events, weights, "raise", None, self._seen).events


def _encoded_one(schema: Schema, event: Event, weights: Weights | None = None) -> EventArrays:
    try:
        return encode_events(schema, [event], [weights] if weights is not None else None)
    except EventError as problem:
        raise problem.at(event=None) from None


def _named(table: Table, slots: I32) -> list[Id]:
    ids = table.ids
    return [ids[slot] for slot in slots.tolist()]


def _unpickled(
    index: str, zone: str, strict: bool, nan_is_null: bool, options: Mapping[str, Any], subscriptions: bytes
) -> Matcher:
    made = Matcher(index, zone=zone, nan="null" if nan_is_null else "value", index_options=options)
    made.add_many(arrow.from_bytes(subscriptions), progress=False)
    schema = made._table.schema
    schema.strict = strict  # only now: what is learned is not declared
    return made
