"""Versions of segments: append, remove, versions that never change, compaction, and how much room they take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher
from earmark.engine import updates
from earmark.engine import version as version_module
from earmark.engine.compaction import compacted
from earmark.engine.version import FEW_REMOVED, IndexedSegment, Place, Version
from earmark.flat import arrays as strings
from earmark.flat import bits
from earmark.keys.schema import Schema
from earmark.segment import segment as module
from earmark.segment.arrays import gather
from earmark.segment.builder import Subscription, prepare
from earmark.segment.ids import Ids
from earmark.segment.segment import Segment
from earmark.workload import standard


def version(*conditions: str, **attributes: str) -> Version:
    schema = Schema()
    schema.declare(attributes)
    return added(Version.empty(schema), *conditions)


def added(made: Version, *conditions: str, **fields: Any) -> Version:
    items = [{"id": f"s{made.slots + i}", "condition": c, **fields} for i, c in enumerate(conditions)]
    made = updates.added(made, prepare(made.schema, items))
    made.check()
    return made


def removed(made: Version, *ids: str) -> Version:
    made = made.removed([made.find(one) for one in ids])  # type: ignore[misc]
    made.check()
    return made


def replaced(made: Version, one: str, condition: str) -> Version:
    place = made.find(one)
    assert place is not None
    made = updates.replaced(made, place, Subscription(one, condition))
    made.check()
    return made


def everything(made: Version) -> list[Any]:
    found = []
    for one in made.segments:
        segment, slots = one.segment, range(len(one))
        arrays = [array.tolist() for array in segment.arrays]
        texts, tags = [segment.text(s) for s in slots], [segment.tags(s) for s in slots]
        scoped = one.eligible((("t", "1"),)).tolist()
        found.append([arrays, one.removed.tolist(), texts, tags, one.alive.tolist(), one.live, scoped])
    return found


def in_order(made: Version) -> list[Any]:
    return made.whole.ids.objects[: len(made.whole)]


class TestMoments:
    def test_never_change(self) -> None:
        """Whatever is made of them next."""
        made = added(version("a > 3", "s = 'k' OR b IS NULL"), "TRUE", tags={"t": "1"}, score=2.0)
        moments = [(made, everything(made))]

        def then(other: Version) -> Version:
            other.check()
            moments.append((other, everything(other)))
            return other

        made = then(added(made, *["a > 9 AND s = 'zz'"] * 100, tags={"t": "1"}, weights={"a": 2.0}))
        made = then(removed(made, "s0", "s5"))
        made = then(replaced(made, "s1", f"a > {2**60}"))  # a new generation of keys
        assert len(made.segments) == 2
        made = then(removed(made, "s1"))
        made = then(compacted(made, None, fewer_constants=True))
        for moment, before in moments:
            moment.check()
            assert everything(moment) == before

    def test_two_futures_of_one_moment(self) -> None:
        """As after a change that was given up."""
        made = version("a > 3", "s = 'k'")
        given_up = added(made, "a > 4", "s = 'm'", tags={"t": "1"})
        other = added(made, "a > 5 OR b", tags={"t": "2"})
        assert given_up.find("s3") == (0, 3)
        assert (other.find("s2"), other.find("s3")) == ((0, 2), None)
        assert [other.whole.text(s) for s in range(3)] == ["a > 3", "s = 'k'", "a > 5 OR b"]
        assert other.segments[0].eligible((("t", "1"),)).tolist() == [0]
        assert other.segments[0].eligible((("t", "2"),)).tolist() == [4]
        assert given_up.segments[0].eligible((("t", "1"),)).tolist() == [12]
        assert given_up.segments[0].eligible((("t", "2"),)).tolist() == [0]
        for moment in (made, given_up, other):
            moment.check()

    def test_arrays_are_read_only(self) -> None:
        for made in (version("a > 3"), added(version("a > 3"), "a > 4")):
            for array in made.segments[0].segment.arrays:
                assert not array.flags.writeable

    def test_defaults_are_stored_from_the_first_other_value(self) -> None:
        made = version("a > 3", "a > 3 AND b > 3")
        segment = made.segments[0].segment
        assert len(segment.arrays.weight) == len(segment.arrays.score) == len(segment.tagset) == 0
        made = added(made, "a > 3", weights={"a": 5.0}, score=1.0, tags={"t": "1"})
        segment = added(made, "a > 3").segments[0].segment
        assert segment.arrays.weight.tolist() == [1.0, 1.0, 1.0, 5.0, 1.0]
        assert segment.arrays.score.tolist() == [0.0, 0.0, 1.0, 0.0]
        assert [segment.tags(s) for s in range(4)] == [(), (), (("t", "1"),), ()]

    def test_removals_one_by_one_and_at_once(self) -> None:
        """Noted beside the bitmap, then in another; rows appended between them are living."""
        made = version(*["a > 3"] * 70)
        moments = []
        for slot in range(69):
            made = (made if slot % 3 else added(made, "a > 4")).removed([Place(0, slot)])
            if slot % 20 == 7:
                made.segments[0].alive  # noqa: B018  a search asks for it
            moments.append((made, slot))
        assert len(made.segments[0].since) <= FEW_REMOVED
        made = removed(made, *(f"s{70 + i}" for i in range(10)))
        moments.append((made, 68))
        for moment, last in moments:
            moment.check()
            (one,) = moment.segments
            living = one.living().tolist()
            assert living == [slot for slot in range(len(one)) if one.is_live(slot)] and len(living) == one.live
            assert living[0] == last + 1
            assert bits.to_slots(one.removed).tolist() == sorted({*range(len(one))} - {*living})

    def test_many_removals_make_another_bitmap(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(version_module, "FEW_REMOVED", 3)
        made = version(*["a > 3"] * 70)
        for slot in range(10):
            made = made.removed([Place(0, slot)])
            assert 1 <= len(made.segments[0].since) <= 3
        made.check()
        made = removed(made, "s20", "s30", "s40", "s65", "s69")
        assert not made.segments[0].since
        made.check()
        assert made.segments[0].living().tolist() == [s for s in range(10, 69) if s not in (20, 30, 40, 65)]

    def test_a_row_is_the_segment_that_a_batch_gives(self) -> None:
        """Appended to a segment and by itself."""
        for given in (
            Subscription("n", "a > 3 AND (s = 'k' OR b IS NULL)", {"a": 2.0}, 1.5, {"t": "1"}),
            Subscription("n", "a IN (1, 2, 9007199254740993) OR TRUE"),
            Subscription("n", "a < 3 AND a > 5"),
        ):
            for start in (version("a > 3"), version("s < 'm'", "b"), Version.empty(Schema())):
                batch = updates.added(start, prepare(start.schema, [given]))
                one = updates.added_one(start, given)
                one.check()
                assert everything(one) == everything(batch)
                assert one.uses.tolist() == batch.uses.tolist() and one.next_sequence == batch.next_sequence
                types = [[(a.name, a.type) for a in made.schema] for made in (one, batch)]
                assert types[0] == types[1]

    @pytest.mark.parametrize("strict", [False, True])
    @pytest.mark.parametrize(
        "texts",
        [
            (
                "a BETWEEN 1 AND 5 AND b > 2",
                "a BETWEEN 9 AND 3.5 AND b > 1e3",
                "a BETWEEN 1 AND 9007199254740993 AND b > 2",
            ),
            ("a > 1 OR b <= 2", "a > 4503599627370495 OR b <= 4503599627370496"),
            ("b < 1 AND a < 5", "b < 2 AND a < 'x'", "b < 2L AND a < 99999999999999999999999999999999999999999"),
            ("b < 1 AND z < 5", "b < 1 AND z < 7"),
            ("a > 1 AND a < 5 AND NOT b > 1", "a > 1 AND a < -5 AND NOT b > 1"),
            ("s = 'x' AND a = 1", "s = 'y' AND a = 2"),
        ],
    )
    def test_a_condition_of_known_shape_is_what_a_batch_makes_of_it(self, texts: tuple[str, ...], strict: bool) -> None:
        start = version("a > 3 AND b < 4 AND s = 'k'", a="number", b="number", s="string")
        start.schema.strict = strict
        for text in texts * 2:
            outcomes: list[Any] = []
            for change in (
                updates.added_one,
                lambda v, one: updates.added(v, prepare(v.schema, [one], numbered=False)),
            ):
                try:
                    outcomes.append(everything(change(start, Subscription("n", text, None, 0.5))))
                except EarmarkError as problem:
                    outcomes.append(str(problem))
            assert outcomes[0] == outcomes[1]


class TestChanges:
    def test_slots_are_not_reused_and_sequence_goes_on(self) -> None:
        made = removed(version("a > 3", "a > 4"), "s1")
        made = updates.added(made, prepare(made.schema, [("s1", "a > 5")]))
        made.check()
        assert [made.find("s0"), made.find("s1")] == [(0, 0), (0, 2)]
        assert made.segments[0].segment.arrays.sequence.tolist() == [0, 1, 2]
        again = compacted(made, None)
        again.check()
        assert again.whole.arrays.sequence.tolist() == [0, 2]
        assert again.next_sequence == 3
        assert [again.whole.text(s) for s in range(2)] == ["a > 3", "a > 5"]

    def test_replace_keeps_the_sequence(self) -> None:
        made = replaced(version("a > 3", "a > 4", "a > 5"), "s1", "a > 9")
        assert not made.segments[0].segment.is_ordered
        assert in_order(made) == ["s0", "s1", "s2"]
        again = compacted(made, None)
        assert again.segments[0].segment.is_ordered
        assert again.segments[0].segment.ids.objects == ["s0", "s1", "s2"]

    def test_compaction_forgets_unused_constants(self) -> None:
        made = version(*(f"s = 'k{i}'" for i in range(20)), "s > 'k5' AND s <= 'k7'")
        made = removed(made, *(f"s{i}" for i in range(20)))
        again = compacted(made, None, fewer_constants=True)
        again.check()
        assert set(again.schema.strings[0].constants()) <= {b"", b"k5", b"k7"}
        assert len(made.schema.strings[0]) == 21

    def test_a_segment_without_living_subscriptions_goes(self) -> None:
        made = removed(version("a > 3", "b > 4"), "s0", "s1")
        assert made.segments == () and made.live == 0 and made.next_sequence == 2
        assert made.schema.by_name["a"].type is None

    def test_too_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "MOST_ELEMENTS", 5)
        m = Matcher()
        m.add(0, "a IN (1, 3, 5)")
        with pytest.raises(EarmarkError, match="at most 2,147,483,647 intervals"):
            m.add(1, "a IN (1, 3, 5)")
        assert m.ids() == [0]

    def test_check_finds_what_is_broken(self) -> None:
        made = version("a > 3", "a > 4")
        (one,) = made.segments
        twice = replace(one.segment, ids=Ids.of(["s0", "s0"]))
        for broken in (
            replace(made, uses=made.uses + 1),
            replace(made, next_sequence=1),
            made.with_segments([replace(one, live=1)]),
            made.with_segments([replace(one, since=(1,))]),
            made.with_segments([replace(one, segment=replace(one.segment, ids=Ids.of(["s0"])))]),
            made.with_segments([IndexedSegment.of(twice)]),
            made.with_segments([one, IndexedSegment.of(one.segment)]),
        ):
            with pytest.raises(AssertionError):
                broken.check()
        made.check()


class TestGenerations:
    """Bounds beyond 2^53, and strings between which no key is left, change keys: older segments keep theirs."""

    def test_older_segments_are_searched_with_their_own_keys(self) -> None:
        m = Matcher("blocks")
        m.add_many([(i, f"a > {i} AND s = 'k{i % 3}'") for i in range(300)])
        m.add(300, f"a > {2**60} AND s = 'k1'")
        generations = {one.segment.schema.generation for one in m._version.segments}
        assert len(generations) == 2
        event = {"a": 250.5, "s": "k1"}
        wanted = [i for i in range(251) if i % 3 == 1]
        assert m.match(event) == wanted
        assert m.match({"a": 2**60 + 1, "s": "k1"}) == [*(i for i in range(300) if i % 3 == 1), 300]
        assert m.match_many([event])["subscription"].to_pylist() == wanted
        assert [one.id for one in m.top_k(event, 3)] == wanted[:3]
        assert m.explain(1, event).matched and not m.explain(300, event).matched
        assert m.verify([event, {"a": 2**60 + 1}]).ok
        assert m[5].condition == "a > 5 AND s = 'k2'"
        m.update(4, score=2.5)
        assert m.top_k(event, 1)[0].id == 4
        m.check()
        m._compactor.wait()
        m.compact()
        assert len(m._version.segments) == 1
        assert m.match(event) == wanted and m.top_k(event, 1)[0].id == 4
        m.check()

    def test_a_whole_of_several_generations(self) -> None:
        made = added(version("a > 3", "s = 'x'"), f"a > {2**60}", "s = 'y' AND a < 1.5")
        assert len(made.segments) == 2
        whole = made.whole
        whole.check()
        assert in_order(made) == ["s0", "s1", "s2", "s3"]
        assert {one.segment.schema.generation for one in made.segments}.isdisjoint({whole.schema.generation})


class TestSegment:
    def test_of_nothing(self) -> None:
        m = Matcher()
        assert len(m._version.whole) == 0 and m.ids() == [] and m.to_arrow().num_rows == 0

    def test_ids_come_from_lists_and_columns(self) -> None:
        strings, numbers = Ids.of(["b", "ü", ""]), Ids.of([3, -1])
        assert not strings.integers and numbers.integers
        for ids, wanted in ((strings, ["b", "ü", ""]), (numbers, [3, -1])):
            again = Ids.of(ids.column)
            assert [again[i] for i in range(len(again))] == wanted == again.objects
            assert again.named(np.array([1, 0], np.int32)) == wanted[1::-1]
            assert again.taken(np.array([1], np.int32)).to_pylist() == [wanted[1]]
            assert again.take(np.array([1])).objects == [wanted[1]]
            more = again.extended(ids)
            assert more.objects == wanted * 2 and len(again) == len(wanted)
            assert more.taken(np.array([len(wanted)], np.int32)).to_pylist() == wanted[:1]

    def test_appending_leaves_a_segment_as_it_was(self) -> None:
        first = prepare(Schema(), [("a", "x > 1")]).segment(0)
        one = first.appended(prepare(first.schema, [("b", "x > 2")]).segment(1))
        other = first.appended(prepare(first.schema, [("c", "y > 2")]).segment(1))
        assert [len(first), len(one), len(other)] == [1, 2, 2]
        assert [first.find("b"), one.find("b"), other.find("b"), other.find("c")] == [None, 1, None, 1]
        assert isinstance(one, Segment) and one.text(1) == "x > 2" and other.text(1) == "y > 2"

    @pytest.mark.parametrize("weights", [None, {"a": 0.5}])
    def test_another_order_in_parts(self, monkeypatch: pytest.MonkeyPatch, weights: Any) -> None:
        conditions = ("a > 1 OR b IN (1, 3, 5)", "a < 3", "a = 1 AND b > 2", "a < 1 AND a > 2", "a > 1 OR a IS NULL")
        rows = [Subscription(f"s{i}", conditions[i % 5], weights, i / 4, {"t": str(i % 3)}) for i in range(17)]
        segment = prepare(Schema(), rows).segment(0)
        order = np.random.default_rng(3).permutation(17)
        picked = segment.pick(order)
        monkeypatch.setattr(module, "_AT_ONCE", 4)
        made = segment.reordered(order)
        made.check()
        for one, other in zip(made.arrays, picked.arrays, strict=True):
            assert one.dtype == other.dtype and one.tolist() == other.tolist() and not one.flags.writeable
        assert [made.text(s) for s in range(17)] == [segment.text(s) for s in order.tolist()]
        assert [made.tags(s) for s in range(17)] == [segment.tags(s) for s in order.tolist()]
        assert made.ids.objects == [f"s{s}" for s in order.tolist()]
        monkeypatch.setattr(strings, "_AT_ONCE", 3)
        some, twice = segment.pick(order[:11]), segment.pick(np.repeat(order[3:], 2))
        for part, slots in ((some, order[:11]), (twice, np.repeat(order[3:], 2))):
            for one, other in zip(part.arrays, gather(segment.arrays, slots), strict=True):
                assert one.dtype == other.dtype and one.tolist() == other.tolist() and not one.flags.writeable
            assert [part.text(s) for s in range(len(slots))] == [segment.text(s) for s in slots.tolist()]


class TestMemory:
    """At most 40 bytes a predicate, beside ids, string constants, tags and what was asked."""

    count = 2_000

    def per_predicate(self, m: Matcher, predicates: int) -> float:
        stats = m.stats()
        assert stats["constraints"] == predicates * len(m)
        return stats["table_bytes"] / stats["constraints"]

    @pytest.mark.parametrize("weights", [None, {"a": 0.5, "b": 0.25, "s": 2.0}])
    def test_conditions_of_three(self, weights: Any) -> None:
        m = Matcher()
        m.add_many(
            {"id": i, "condition": f"a > {i} AND b BETWEEN {i} AND {i + 9} AND s = 'k{i % 50}'", "weights": weights}
            for i in range(self.count)
        )
        assert self.per_predicate(m, 3) <= 40

    @pytest.mark.parametrize("scored", [False, True])
    def test_ready_made_of_five(self, scored: bool) -> None:
        low = np.arange(self.count)
        columns: dict[str, Any] = {"id": low}
        for name in "abcde":
            columns |= {f"{name}_lo": low, f"{name}_hi": low + 9}
        if scored:
            columns |= {"score": low / 7, "weights": [{"a": 0.5}] * self.count}
        m = Matcher()
        m.add_many(pa.table(columns))
        assert self.per_predicate(m, 5) <= 40

    def test_the_standard_workload(self) -> None:
        work = standard.w2(subscriptions=self.count)
        names = [f"a{n}" for n in range(work.attributes)]
        assert work.sub_attr.tolist() == [list(range(work.attributes))] * self.count
        columns: dict[str, Any] = {"id": range(self.count)}
        for n, name in enumerate(names):
            columns |= {f"{name}_lo": work.sub_lo[:, n], f"{name}_hi": work.sub_hi[:, n]}
        m = Matcher()
        m.add_many(pa.table(columns))
        assert self.per_predicate(m, 5) <= 30
        events = work.event_value[:50]
        found = m.match_many(pa.table({name: events[:, n] for n, name in enumerate(names)}))
        inside = ((work.sub_lo <= events[:, None]) & (events[:, None] <= work.sub_hi)).all(axis=2)
        assert found["subscription"].to_pylist() == np.nonzero(inside)[1].tolist()
