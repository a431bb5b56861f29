"""Matcher: the engine a user holds.

    m = Matcher()
    m.add("ad-17", "credit_score > 650 AND age BETWEEN 22 AND 36")
    m.match({"credit_score": 732, "age": 27})          # ['ad-17']

Threads: any number of threads may search while one or more add, remove and update. Writers take turns (`_writing`).
They make the next version beside the one that readers use, and publish it by one store (`_replace`), the only commit
point: whatever fails before it, by any exception at any line, has changed nothing. A search takes the published version
and works on that alone, so it sees all of a change or nothing of it, and never waits for a writer. Small segments are
merged beside that (engine/compaction.py). Searching changes nothing: types and keys come from conditions and
declarations.

Results are deterministic: matches in order of insertion; ranked results by score, then order of insertion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import pyarrow as pa

from earmark import index as indexes
from earmark.book import saving
from earmark.engine import edits, updates
from earmark.engine.batch import Batch, One, OnError, check_on_error, read, read_one
from earmark.engine.compaction import Compactor, compacted, settled
from earmark.engine.edits import Edit, Make
from earmark.engine.searcher import ALL, Ask, Mode, Searcher
from earmark.engine.stats import AttributeInfo, Seen, Stats, Unseen, attributes_of, stats_of
from earmark.engine.updates import KEEP
from earmark.engine.verify import Verification, compare
from earmark.engine.version import Place, Version
from earmark.errors import EarmarkError, SubscriptionError
from earmark.events.frames import as_arrow, is_frame
from earmark.events.mappings import Reject
from earmark.events.moments import Moment, settled_moment, timed
from earmark.index import auto
from earmark.index.auto import helper
from earmark.index.auto.plan import Plan, Plans
from earmark.index.contract import Adaptation, Work
from earmark.index.driver import ArrayIndex
from earmark.keys.schema import Schema
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.locks import remade_rlock
from earmark.segment import arrow
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Subscription, checked_tags
from earmark.segment.columns import Bounds
from earmark.segment.combine import Combine, combination
from earmark.segment.explain import Explanation, NearMiss, explain_slot, never_matching
from earmark.segment.forms import reader_of, subscription_at, to_frame
from earmark.segment.ids import Id, checked_id
from earmark.segment.segment import NO_TAGS, Tags, no_arrays
from earmark.threads import at_most, thread_count

if TYPE_CHECKING:
    from earmark.cover.audit import Audit
    from earmark.cover.cover_index import CoverIndex

Event = Mapping[str, Any]
Weights = Mapping[str, float]
DEFAULT_INDEX = "auto"


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
        time: str | None = None,
        index_options: Mapping[str, Any] | None = None,
        combine: Combine = "sum",
    ) -> None:
        """Make an empty matcher.

        `index` names the structure that searches; "auto" takes the one that suits (`plan` says which, and why).
        `index_options` are its own: its page in docs has them, and "auto" takes `k`, to plan for the k best.
        `attributes` declares types (others are learned); `zone` is where timestamps without a zone are read. With
        `strict`, conditions may use declared attributes only. `nan="null"` takes an event's NaN for NULL, as mappings
        made from pandas frames mean it; by default NaN is a number above all others, as in Spark. `time` names the
        attribute that tells when an event happened, for subscriptions that have a life span.

        `combine` says how scores are made of weights: "sum", "max", "min", "product", or a function of two numbers that
        never decreases (docs/ranking.md).
        """
        self._combination = combination(combine)
        build = indexes.builder(index, index_options)
        if index_options:
            build(no_arrays())  # which says what is wrong with them
        if index == "auto":
            build = self._planned
        self._build = None if index == "scan" and not index_options else build  # scanning needs no index
        self._options = dict(index_options or {})
        self.index = index
        if nan not in ("value", "null"):
            raise EarmarkError(f"expected 'value' or 'null' for nan, got {nan!r}")
        schema = Schema(zone, strict=strict, nan_is_null=nan == "null", time=time)
        schema.declare({} if attributes is None else attributes)
        self._covering: CoverIndex | None = None
        self._seen = Seen()
        self._shelf = saving.Shelf()
        self._start(Version.empty(schema))

    def _start(self, version: Version) -> None:
        self._writing = remade_rlock()
        self._refusal: str | None = None  # why it takes no changes
        self._version = version
        self._compactor = Compactor(self._writing, self._latest, self._replace, self._build)

    def _planned(self, table: SegmentArrays) -> ArrayIndex[Any]:
        """The index that suits a table, by recent events; beside a much larger one, of the same kind."""
        largest = max(self.plan(), key=lambda plan: plan.subscriptions, default=None)
        is_small = auto.SMALL_BESIDE * len(table.sequence) <= self._version.live
        index = auto.followed(table, largest, self._options.get("among", ())) if largest and is_small else None
        if index is None:
            recent = self._seen.recent(self._version.schema.generation)
            index = auto.planned(table, **self._plan_options(), recent=recent)
        self._compile_missing([index.plan])
        return index

    def _plan_options(self) -> dict[str, Any]:
        """The options of 'auto'; where they do not say what to plan for, it is what was asked of late."""
        return {"k": self._seen.wanted(), **self._options, "compiles": helper.takes}

    def _compile_missing(self, plans: Iterable[Plan]) -> None:
        """Have the candidates compiled that these plans still miss, and plan again when that is done."""
        missing = list(dict.fromkeys(name for plan in plans for name in plan.missing))
        if missing and helper.is_offered():
            helper.compile_beside(missing, self._plan_again)

    def _plan_again(self) -> None:
        with self._writing:
            self._compactor.plan_again()

    def _replace(self, version: Version) -> None:
        """Let readers see a version: the commit point of every change."""
        self._version = version

    def _change(self, kind: str, make: Make) -> Edit:
        """Make an edit to the subscriptions and publish it; `kind` is what the user calls it."""
        with self._writing:
            self._check_open()
            edit = make(self._version)
            only_removes = edit.removed and not edit.added  # then nothing waits for an index
            self._replace(edit.version if only_removes else settled(edit.version, self._build))
            self._compactor.request()
            return edit

    def _rearrange(self, make: Callable[[Version], Version]) -> None:
        """Publish the same subscriptions in other segments or with other indexes."""
        with self._writing:
            self._check_open()
            self._replace(make(self._latest()))

    def _latest(self) -> Version:
        """The version that the next change is made to. The caller holds the lock."""
        return self._version

    def _check_open(self) -> None:
        """Raise where the matcher is closed: it takes no change. The caller holds the lock."""
        if self._refusal is not None:
            raise EarmarkError(self._refusal)

    def close(self) -> None:
        """Wait for work in the background, and take no changes from now on; `with` does it at its end."""
        with self._writing:
            self._refusal = self._refusal or "the matcher is closed, so it takes no changes; searches still work"
        self._compactor.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        starts: Moment | None = None,
        ends: Moment | None = None,
    ) -> None:
        """Add one subscription; its id must be new.

        `params` are the values of the parameters in the condition: a sequence for `?`, a mapping for `:name`. With
        `starts` or `ends` it only matches events from the one on and before the other (docs/life.md).
        """
        self._change("add", edits.add(Subscription(id, condition, weights, score, tags, params, starts, ends)))

    def add_many(
        self,
        subscriptions: Any,
        *,
        bounds: Bounds | None = None,
        progress: bool | None = None,
        threads: int | None = None,
    ) -> int:
        """Add a batch, all or none; returns how many.

        Takes (id, condition) pairs, mappings or Subscriptions; or an Arrow table, pandas or polars frame with columns
        `id` and `condition` (and `weights`, `score`, `tags`, `starts`, `ends`); or one with ready-made bounds: a column
        `ranges`, or pairs of columns `age_lo`, `age_hi`, or as `bounds={"age": ("min_age", "max_age")}` names them; or
        what `to_frame` or `to_arrow` gave. Shows progress on a terminal. An error lists the rows that cannot be added.
        An index that is built now is built on up to `threads` threads, by default as many as the process has cores.
        """
        with at_most(threads):
            return self._change("add", edits.add_many(reader_of(subscriptions, bounds, progress))).added

    def remove(self, id: Id) -> None:
        """Remove one subscription by id."""
        self._change("remove", edits.remove(id))

    def remove_many(self, ids: Iterable[Id]) -> int:
        """Remove subscriptions by id, all or none; returns how many."""
        return len(self._change("remove", edits.remove_many(ids)).removed)

    def update(
        self,
        id: Id,
        condition: str | Condition = KEEP,
        *,
        weights: Weights | None = KEEP,
        score: float = KEEP,
        tags: Mapping[str, str] | None = KEEP,
        params: Params | None = None,
        starts: Moment | None = KEEP,
        ends: Moment | None = KEEP,
    ) -> None:
        """Change a subscription in one step; what is not given stays, and so does its place in the order.

        `params` are the values of the parameters in the new condition.
        """
        given = Subscription(id, condition, weights, score, tags, params, starts, ends)
        self._change("update", edits.update(given))

    def upsert(
        self,
        id: Id,
        condition: str | Condition,
        *,
        weights: Weights | None = None,
        score: float = 0.0,
        tags: Mapping[str, str] | None = None,
        params: Params | None = None,
        starts: Moment | None = None,
        ends: Moment | None = None,
    ) -> bool:
        """Add a subscription, or replace the one with this id by it; returns whether it is new.

        Nothing of the old one stays but its place in the order: `update` keeps what is not given.
        """
        given = Subscription(id, condition, weights, score, tags, params, starts, ends)
        return not self._change("upsert", edits.upsert(given)).removed

    def compact(self, *, threads: int | None = None) -> None:
        """Make one segment of all, and give back the room of removed subscriptions.

        Small segments are joined in the background by themselves, and those made again of which many were removed. The
        index is built on up to `threads` threads, by default as many as the process has cores.
        """
        self._compactor.forgive()
        with at_most(threads):
            self._rearrange(lambda version: compacted(version, self._build, fewer_constants=True))

    # --- types -----------------------------------------------------------------------------------------------

    @property
    def attributes(self) -> dict[str, AttributeInfo]:
        """The attributes by name: the type of each, whether it is declared, and the subscription that gave it."""
        return attributes_of(self._version)

    @property
    def time(self) -> str | None:
        """The attribute that tells when an event happened, if there is one."""
        return self._version.schema.time

    def declare(self, attributes: Mapping[str, str]) -> None:
        """Fix the types of attributes that have none yet, or make learned ones lasting; all or none."""
        self._change("declare", edits.declare(attributes))

    def retype(self, name: str, type: str) -> None:
        """Give an attribute another type, as if it had been declared so from the start.

        An error names the subscriptions whose conditions do not fit the type. O(subscriptions that use the attribute).
        """
        self._change("retype", edits.retype(name, type))

    def unseen_attributes(self) -> Unseen:
        """The attributes that conditions use and no recent event had, and the fields of events that no condition uses.

        Recent are the last hundred thousand events or so that this matcher was asked about. O(subscriptions).
        """
        return self._seen.unseen(self._version.whole)

    # --- looking at them -------------------------------------------------------------------------------------

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

    def __repr__(self) -> str:
        return f"<Matcher: {len(self):,} subscriptions, index {self.index!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the subscriptions and the options; the index is built again."""
        with self._writing:
            schema = self._version.schema
            given = (self.index, schema.zone_name, schema.strict, schema.nan_is_null, schema.time, self._options)
            return _unpickled, (*given, self._combination.given, arrow.to_bytes(arrow.to_arrow(self._version.whole)))

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

    def plan(self) -> Plans:
        """Which index each segment has, why, and what others would cost; `auto` plans, an index by name does not.

        Print it, or look at `index`, `reason` and `candidates` of each plan, the largest segment's first.
        """
        segments = sorted(self._version.segments, key=len, reverse=True)
        return Plans(one.index.plan for one in segments if one.index is not None and one.index.plan is not None)

    def adapt(self, events: Any, *, threads: int | None = None) -> Adaptation | Plans:
        """Let the index learn from past events, such as the last thousand, and say what it did.

        'be_star_tree' and 'mics' adapt, and 'auto' plans again; others do not, and say so. Searches go on with the
        index as it was meanwhile. What is planned is built on up to `threads` threads, by default as many as the
        process has cores.
        """
        found: list[Adaptation] = []

        def adapted(version: Version) -> Version:
            batch = read(version, events)
            if self.index == "auto":
                return updates.replanned(version, batch, self._plan_options())
            version, adaptation = updates.adapted(version, batch, self._build)
            found.append(adaptation)
            return version

        with at_most(threads):
            self._rearrange(adapted)
        self._compile_missing(self.plan())
        return found[0] if found else self.plan()

    def stats(self) -> Stats:
        """Counts, types and sizes, for people and monitoring."""
        return stats_of(self._version, self.index, self._compactor)

    def profile(self, events: Any, k: int | None = None, *, mode: Mode = "exact") -> Work:
        """What searching these events takes: nodes visited, candidates, comparisons, matches, scores, pruned.

        All matches, or the `k` best. In the measures of the papers, summed over events and segments.
        """
        version = self._version
        ask = ALL if k is None else Ask.best(k, mode, NO_TAGS, self._combination)
        return Searcher(version, ask).profile(read(version, events))

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

    # --- files and frames ------------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Make the subscriptions and their index the newest version of the book in a folder; `load` opens it.

        What the folder has already is not written again. The version before stays, and so do pinned ones; older ones
        are removed.
        """
        with self._writing:
            version = self._latest()
            try:
                saving.check(version, self._shelf)
            except AssertionError as problem:
                raise EarmarkError(f"the subscriptions are damaged, so nothing was saved: {problem}") from None
            if any(one.generation != version.schema.generation for one in version.segments):
                self._replace(compacted(version, self._build))  # in a folder, all keys are of one generation
            self._shelf = saving.save(folder, self._version, self.index, self._shelf)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        version: int | None = None,
        index: str | None = None,
        index_options: Mapping[str, Any] | None = None,
        combine: Combine = "sum",
        mmap: bool = True,
        verify: bool = False,
    ) -> Matcher:
        """The matcher that was saved to a folder, or the book that Spark published to it, mapped unless `mmap=False`.

        The newest version, unless one is given by its number. The saved index is used as it is, unless another is asked
        for: then that one is built. `index_options` and `combine` are not saved: give them again where they matter.
        Checksums are compared once on each host; they detect accidents. Where someone may have changed a folder and its
        checksums, `verify` compares the answers of the stored index with a scan.
        """
        if index is not None:
            indexes.builder(index, index_options)  # says what is wrong before anything is read
        loaded, saved, shelf = saving.load(folder, version, mmap, index)
        made = cls(index or saved, index_options=index_options, combine=combine)
        if made.index != saved and made._build is not None:
            loaded = loaded.reindexed(made._build)
        if verify:
            saving.verify_answers(loaded, folder)
        made._shelf = shelf
        made._start(loaded)
        made._compile_missing(made.plan())
        return made

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


def _unpickled(
    index: str,
    zone: str,
    strict: bool,
    nan_is_null: bool,
    time: str | None,
    options: Mapping[str, Any],
    combine: Combine,
    subscriptions: bytes,
) -> Matcher:
    nan: Literal["null", "value"] = "null" if nan_is_null else "value"
    made = Matcher(index, zone=zone, nan=nan, time=time, index_options=options, combine=combine)
    made.add_many(arrow.from_bytes(subscriptions), progress=False)
    made._version.schema.strict = strict  # only now: what is learned is not declared
    return made
