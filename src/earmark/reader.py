"""Reader: everything that can be asked of a book without changing it. `Matcher` adds the changes.

A reader takes the published version and works on that alone, so it sees all of a change or nothing of it, and never
waits for a writer. Searching changes nothing: types and keys come from conditions and declarations. What it notes of
events (`Seen`) tells `auto` what to plan for, and `unseen_attributes` what never came.

Results are deterministic: matches in order of insertion; ranked results by score, then order of insertion.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from earmark.engine.batch import Batch, One, OnError, check_on_error, read, read_one
from earmark.engine.searcher import ALL, Ask, Mode, Searcher
from earmark.engine.stats import AttributeInfo, Seen, Unseen, attributes_of
from earmark.engine.verify import Verification, compare
from earmark.engine.version import Place, Version
from earmark.errors import EarmarkError, SubscriptionError
from earmark.events.frames import as_arrow, is_frame
from earmark.events.mappings import Reject
from earmark.events.moments import Moment, settled_moment, timed
from earmark.index.auto.plan import Plans
from earmark.index.contract import Work
from earmark.segment import arrow
from earmark.segment.builder import Subscription, checked_tags
from earmark.segment.combine import Combination
from earmark.segment.explain import Explanation, NearMiss, explain_slot, never_matching
from earmark.segment.forms import subscription_at, to_frame
from earmark.segment.ids import Id, checked_id
from earmark.segment.segment import NO_TAGS, Tags
from earmark.threads import at_most, thread_count

if TYPE_CHECKING:
    from earmark.cover.audit import Audit
    from earmark.cover.cover_index import CoverIndex

Event = Mapping[str, Any]
Weights = Mapping[str, float]


class Match(NamedTuple):
    """One ranked result."""

    id: Id
    score: float


class Reader:
    """Questions about the published version of a book. Any number of threads may ask."""

    def __init__(self, version: Version, combined: Combination) -> None:
        self._version = version
        self._combination = combined
        self._covering: CoverIndex | None = None
        self._seen = Seen()

    # --- looking at subscriptions ----------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many subscriptions are live."""
        return self._version.live

    def __iter__(self) -> Iterator[Id]:
        """The live ids in order of insertion, as `ids` lists them."""
        return iter(self.ids())

    def __getitem__(self, id: Id) -> Subscription:
        """A subscription as it was given."""
        version, (number, slot) = self._find(id)
        return subscription_at(version.segments[number].segment, slot)

    def __contains__(self, id: object) -> bool:
        """Whether a subscription is live."""
        try:
            self._find(checked_id(id))
        except SubscriptionError:
            return False
        return True

    def ids(self) -> list[Id]:
        """The live ids in order of insertion."""
        whole = self._version.whole
        return whole.ids.objects[: len(whole)]

    def _find(self, id: Id) -> tuple[Version, Place]:
        one = checked_id(id)
        while True:
            version = self._version
            place = version.find(one)
            if place is not None:
                return version, place
            if version is self._version:  # else it may have been replaced meanwhile
                raise _unknown(id)

    def never_matching(self) -> list[Id]:
        """Ids of subscriptions that no event can match, such as `a < 3 AND a > 5`; in order of insertion."""
        return never_matching(self._version.whole)

    def audit(self, *, scope: Mapping[str, str] | None = None, threads: int | None = None) -> Audit:
        """Duplicates, covered subscriptions, clauses that never match, subscriptions that match everything.

        From the conditions alone; `scope` restricts it to subscriptions with these tags. `threads` threads compare, by
        default as many as the process has cores. docs/hygiene.md.
        """
        from earmark.cover.audit import audit

        whole = self._version.whole
        with at_most(threads):
            return audit(whole, whole.tagged(_tags(scope)))

    def covered_by(self, id: Id) -> list[Id]:
        """The subscriptions that every event of this one matches too, in order of insertion.

        O(subscriptions) for the first questions after a change; an index is made when many are asked.
        """
        return self._cover_index().covering(id)

    def covered(self, id: Id) -> list[Id]:
        """The subscriptions all of whose events match this one, in order of insertion. Costs as `covered_by`."""
        return self._cover_index().covered(id)

    def covers(self, above: Id, below: Id) -> bool:
        """Whether every event that matches `below` matches `above` too; of equal conditions, the older one covers.

        Clauses of `above` that only together contain a clause of `below` do not count: `earmark.cover.subsumed`.
        """
        return self._cover_index().covers(above, below)

    def _cover_index(self) -> CoverIndex:
        """The covering index of the published version, kept for the next question."""
        from earmark.cover.cover_index import CoverIndex

        index, version = self._covering, self._version
        if index is None or index._version is not version:
            index = self._covering = CoverIndex.of(self)
        return index

    def to_arrow(self) -> pa.Table:
        """All live subscriptions as an Arrow table, without loss: `add_many` takes it back.

        Only what keeps the table's metadata can carry it (Arrow and Parquet files do, pandas and polars do not).
        """
        return arrow.to_arrow(self._version.whole)

    def to_frame(self) -> pa.Table:
        """All live subscriptions as plain columns: id, condition, weights, score, tags; starts and ends where used.

        `add_many` takes it back, also by way of pandas and polars.
        """
        return to_frame(self._version.whole)

    # --- types -----------------------------------------------------------------------------------------------

    @property
    def attributes(self) -> dict[str, AttributeInfo]:
        """The attributes by name: the type of each, whether it is declared, and the subscription that gave it."""
        return attributes_of(self._version)

    @property
    def time(self) -> str | None:
        """The attribute that tells when an event happened, if there is one."""
        return self._version.schema.time

    def unseen_attributes(self) -> Unseen:
        """The attributes that conditions use and no recent event had, and the fields of events that no condition uses.

        Recent are the last hundred thousand events or so that this matcher was asked about. O(subscriptions).
        """
        return self._seen.unseen(self._version.whole)

    # --- searching -------------------------------------------------------------------------------------------

    def match(self, event: Event, *, scope: Mapping[str, str] | None = None, at: Moment | None = None) -> list[Id]:
        """The ids of all subscriptions that an event matches, in order of insertion.

        `scope` restricts the search to subscriptions with these tags. `at` is when the event happened, which matters
        for life spans; by default the matcher's `time` attribute tells, or it is now.
        """
        version, one = self._one(event, None, at)
        return Searcher(version, ALL if scope is None else Ask(scope=_tags(scope))).match(one)

    def top_k(
        self,
        event: Event,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | None = None,
        scope: Mapping[str, str] | None = None,
        at: Moment | None = None,
    ) -> list[Match]:
        """The k best subscriptions for an event, by score, then order of insertion.

        `mode` "exact" ranks those that match; "relaxed" those of which at least one constraint holds. `weights` are
        the event's, by attribute; `at` is as for `match`.
        """
        ask = Ask.best(k, mode, _tags(scope), self._combination)
        version, one = self._one(event, weights, at, ask)
        return [Match(*best) for best in Searcher(version, ask).best(one)]

    def match_many(
        self,
        events: Any,
        *,
        scope: Mapping[str, str] | None = None,
        scores: bool = True,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
        threads: int | None = None,
        at: Moment | None = None,
    ) -> pa.Table:
        """All matches of many events, as an Arrow table (event, subscription, score; without `scores`, the first two).

        Events are a sequence of mappings, an Arrow table or record batch, or a pandas or polars frame; `event` is the
        row number. `on_error` says what becomes of an event that cannot be read: "raise" an error; take what cannot be
        read of it for "null"; or "reject" the event. What was not read is added to `rejects`, if that is given. Up to
        `threads` threads search, by default as many as the process has cores; the answers are the same. `at` is the
        time of all the events, as for `match`.
        """
        ask = Ask(scope=_tags(scope), scores=scores, combination=self._combination)
        searcher = Searcher(self._version, ask, thread_count(threads))
        return searcher.whole(self._read(searcher, events, None, on_error, rejects, at), "match_reader")

    def match_reader(
        self,
        events: Any,
        *,
        scope: Mapping[str, str] | None = None,
        scores: bool = True,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
        threads: int | None = None,
        at: Moment | None = None,
    ) -> pa.RecordBatchReader:
        """`match_many` piece by piece, in bounded memory: an Arrow RecordBatchReader of (event, subscription, score).

        Events may also be an iterator of mappings or a RecordBatchReader, of any length. All are matched against the
        subscriptions of the moment of this call.
        """
        ask = Ask(scope=_tags(scope), scores=scores, combination=self._combination)
        searcher = Searcher(self._version, ask, thread_count(threads))
        return self._reader(searcher, events, None, on_error, rejects, at)

    def top_k_many(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | Iterable[Weights | None] | None = None,
        scope: Mapping[str, str] | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
        threads: int | None = None,
        at: Moment | None = None,
    ) -> pa.Table:
        """The k best for each of many events, best first, as an Arrow table (event, subscription, score).

        `weights` is one mapping for all events, or one for each; the rest as for `top_k` and `match_many`.
        """
        ask = Ask.best(k, mode, _tags(scope), self._combination)
        searcher = Searcher(self._version, ask, thread_count(threads))
        return searcher.whole(self._read(searcher, events, weights, on_error, rejects, at), "top_k_reader")

    def top_k_reader(
        self,
        events: Any,
        k: int = 10,
        *,
        mode: Mode = "exact",
        weights: Weights | None = None,
        scope: Mapping[str, str] | None = None,
        on_error: OnError = "raise",
        rejects: list[Reject] | None = None,
        threads: int | None = None,
        at: Moment | None = None,
    ) -> pa.RecordBatchReader:
        """`top_k_many` piece by piece, as `match_reader`; `weights` is one mapping for all events."""
        ask = Ask.best(k, mode, _tags(scope), self._combination)
        searcher = Searcher(self._version, ask, thread_count(threads))
        return self._reader(searcher, events, weights, on_error, rejects, at)

    def _reader(
        self,
        searcher: Searcher,
        events: Any,
        weights: Any,
        on_error: OnError,
        rejects: list[Reject] | None,
        at: Moment | None,
    ) -> pa.RecordBatchReader:
        check_on_error(on_error, rejects)
        at = settled_moment(searcher.version.schema, at)

        def read_group(group: Any, own: list[Reject] | None) -> Batch:
            return self._read(searcher, group, weights, on_error, own, at)

        return searcher.reader(events, read_group, rejects)

    # --- why, and how ----------------------------------------------------------------------------------------

    def explain(self, id: Id, event: Event, *, weights: Weights | None = None, at: Moment | None = None) -> Explanation:
        """Why a subscription matches an event or not: each constraint, what it asked, what it got."""
        version, (number, slot) = self._find(id)
        segment, at = version.segments[number].segment, settled_moment(version.schema, at)
        one = read_one(version, event, weights, at).for_segment(segment)
        return explain_slot(segment, slot, one, timed(version.schema, event, at), self._combination)

    def near_misses(
        self,
        event: Event,
        missing: int = 1,
        *,
        limit: int | None = None,
        scope: Mapping[str, str] | None = None,
        at: Moment | None = None,
    ) -> list[NearMiss]:
        """Subscriptions that do not match but would if at most `missing` constraints of one clause held.

        Nearest first, then in order of insertion; each once, by its nearest clause; `limit` keeps the first of them.
        """
        if isinstance(missing, bool) or not isinstance(missing, int) or missing < 1:
            raise EarmarkError(f"expected a number of missing constraints, 1 or more, got {missing!r}")
        if limit is not None and (not isinstance(limit, int) or limit < 0):
            raise EarmarkError(f"expected a number of results as limit, got {limit!r}")
        at = settled_moment(self._version.schema, at)
        version, one = self._one(event, None, at)
        shown = timed(version.schema, event, at)
        return Searcher(version, Ask(scope=_tags(scope))).near_misses(one, shown, missing, limit)

    def plan(self) -> Plans:
        """Which index each segment has, why, and what others would cost; `auto` plans, an index by name does not.

        Print it, or look at `index`, `reason` and `candidates` of each plan, the largest segment's first.
        """
        segments = sorted(self._version.segments, key=len, reverse=True)
        return Plans(one.index.plan for one in segments if one.index is not None and one.index.plan is not None)

    def profile(self, events: Any, k: int | None = None, *, mode: Mode = "exact") -> Work:
        """What searching these events takes: nodes visited, candidates, comparisons, matches, scores, pruned.

        All matches, or the `k` best. In the measures of the papers, summed over events and segments.
        """
        version = self._version
        ask = ALL if k is None else Ask.best(k, mode, NO_TAGS, self._combination)
        return Searcher(version, ask).profile(read(version, events))

    def verify(self, events: Any, *, threads: int | None = None) -> Verification:
        """Check the index against a row-by-row evaluation of every subscription, on these events.

        Fit for production: it only reads, on `threads` threads, by default as many as the process has cores.
        O(events x subscriptions).
        """
        version = self._version
        with at_most(threads):
            return compare(Searcher(version), read(version, events))

    def check(self) -> None:
        """Raise AssertionError, naming what is broken, unless every invariant holds. O(size)."""
        self._version.check()

    # --- inside ----------------------------------------------------------------------------------------------

    def _one(self, event: Event, weights: Weights | None, at: Moment | None, ask: Ask = ALL) -> tuple[Version, One]:
        """A single event as keys, with the version whose keys they are."""
        version = self._version
        one = read_one(version, event, weights, at)
        self._seen.note_one(one.entries, event, version.schema.generation, ask.ranked)
        return version, one

    def _read(
        self,
        searcher: Searcher,
        events: Any,
        weights: Any,
        on_error: OnError,
        rejects: list[Reject] | None,
        at: Moment | None,
    ) -> Batch:
        """Many events as keys of the version that is searched."""
        version = searcher.version
        events = as_arrow(events) if is_frame(events) else events
        batch = read(version, events, weights, on_error, rejects, at)
        names = [events.column_names] if isinstance(events, pa.Table) else events
        self._seen.note(batch.events, version.schema.generation, names, searcher.ask.ranked)
        return batch


def _unknown(id: Id) -> SubscriptionError:
    return SubscriptionError(f"there is no subscription {id!r}")


def _tags(scope: Mapping[str, str] | None) -> Tags:
    return NO_TAGS if scope is None else checked_tags(scope, "a scope")
