"""Matcher: the engine a user holds.

    m = Matcher()
    m.add("ad-17", "credit_score > 650 AND age BETWEEN 22 AND 36")
    m.match({"credit_score": 732, "age": 27})          # ['ad-17']

Here are the changes; what can be asked is in reader.py.

Threads: any number of threads may search while one or more add, remove and update. Writers take turns (`_writing`).
They make the next version beside the one that readers use, and publish it by one store (`_replace`), the only commit
point: whatever fails before it, by any exception at any line, has changed nothing. Small segments are merged beside
that (engine/compaction.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Self

from earmark import index as indexes
from earmark.book import saving
from earmark.engine import edits, updates
from earmark.engine.batch import read
from earmark.engine.compaction import Compactor, compacted, settled
from earmark.engine.edits import Edit, Make
from earmark.engine.stats import Stats, stats_of
from earmark.engine.updates import KEEP
from earmark.engine.version import Version
from earmark.errors import EarmarkError
from earmark.events.moments import Moment
from earmark.index import auto
from earmark.index.auto import helper
from earmark.index.auto.plan import Plan, Plans
from earmark.index.contract import Adaptation
from earmark.index.driver import ArrayIndex
from earmark.keys.schema import Schema
from earmark.language.parameters import Params
from earmark.language.predicate import Condition
from earmark.locks import remade_rlock
from earmark.reader import Reader, Weights
from earmark.segment import arrow
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import Subscription
from earmark.segment.columns import Bounds
from earmark.segment.combine import Combine, combination
from earmark.segment.forms import reader_of
from earmark.segment.ids import Id
from earmark.segment.segment import no_arrays
from earmark.threads import at_most

DEFAULT_INDEX = "auto"


class Matcher(Reader):
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
        combined = combination(combine)
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
        self._shelf = saving.Shelf()
        super().__init__(Version.empty(schema), combined)
        self._start(self._version)

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
        """The options of 'auto'; where they do not say what to plan for, it is for recent searches."""
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

    def declare(self, attributes: Mapping[str, str]) -> None:
        """Fix the types of attributes that have none yet, or make learned ones lasting; all or none."""
        self._change("declare", edits.declare(attributes))

    def retype(self, name: str, type: str) -> None:
        """Give an attribute another type, as if it had been declared so from the start.

        An error names the subscriptions whose conditions do not fit the type. O(subscriptions that use the attribute).
        """
        self._change("retype", edits.retype(name, type))

    # --- the index -------------------------------------------------------------------------------------------

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

    # --- files -----------------------------------------------------------------------------------------------

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

    def __repr__(self) -> str:
        return f"<Matcher: {len(self):,} subscriptions, index {self.index!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the subscriptions and the options; the index is built again."""
        with self._writing:
            schema = self._version.schema
            given = (self.index, schema.zone_name, schema.strict, schema.nan_is_null, schema.time, self._options)
            return _unpickled, (*given, self._combination.given, arrow.to_bytes(arrow.to_arrow(self._version.whole)))


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
