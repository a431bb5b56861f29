"""When segments are united and how, what happens to them meanwhile, and that a failure is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from earmark import Matcher
from earmark.engine import compaction, updates
from earmark.engine.compaction import CompactionPlan, installed, keyed, next_compaction, run, settled, united
from earmark.engine.version import Version
from earmark.flat.arrays import I32
from earmark.index.scan import Scan
from earmark.keys.schema import Schema
from earmark.segment.arrays import SegmentArrays
from earmark.segment.builder import prepare


class Static(Scan):
    """A scan that looks as if it had a structure of its own."""

    nbytes = 1  # type: ignore[assignment]
    is_updatable = False


class Counted(Scan):
    """A scan that looks as if it had a structure of its own, and notes what is asked of it."""

    nbytes = 1  # type: ignore[assignment]

    def __init__(self, table: SegmentArrays, **options: Any) -> None:
        super().__init__(table, **options)
        self.inserted: list[int] = []
        self.removed: list[int] = []
        self.built = len(table.sequence)

    def copy(self) -> Counted:
        made = Counted(self._table)
        made.inserted, made.removed, made.built = [*self.inserted], [*self.removed], self.built
        return made

    def insert(self, table: SegmentArrays, slots: I32) -> None:
        super().insert(table, slots)
        self.inserted += slots.tolist()

    def remove(self, slots: I32) -> None:
        self.removed += slots.tolist()

    @classmethod
    def restore(cls, table: SegmentArrays, arrays: Mapping[str, NDArray[Any]]) -> Counted:
        return cls(table)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 4)


def added(version: Version, *ids: int) -> Version:
    return updates.added(version, prepare(version.schema, [(one, f"a > {one}") for one in ids]))


def removed(version: Version, *ids: int) -> Version:
    return version.removed([version.find(one) for one in ids])  # type: ignore[misc]


def sealed(count: int, build: Any = Counted) -> Version:
    made = settled(added(Version.empty(Schema()), *range(count)), build)
    assert [one.is_sealed for one in made.segments] == [True]
    return made


def ids(version: Version) -> list[Any]:
    version.check()
    return version.whole.ids.objects[: version.live]


def merge(version: Version, build: Any = Counted) -> Version:
    wanted = next_compaction(version)
    assert wanted is not None
    version = keyed(version, wanted)
    made = installed(version, run(version, wanted, build))
    assert made is not None
    return made


def test_a_few_changes_wait_in_the_unsealed_segment() -> None:
    start = sealed(20)
    then = removed(added(added(start, 20, 21), 22), 3)
    assert then.segments[0].index is start.segments[0].index
    assert [len(one) for one in then.segments] == [20, 3]
    assert next_compaction(then) is None


def test_more_are_taken_in_by_a_copy() -> None:
    start = sealed(20)
    then = removed(added(start, *range(20, 26)), 3, 7, 21)
    made = merge(then)
    (one,) = made.segments
    index, before = one.index, start.segments[0].index
    assert isinstance(index, Counted) and isinstance(before, Counted)
    assert (index.built, index.inserted, index.removed) == (20, [20, 21, 22, 23, 24], [3, 7])
    assert (before.inserted, before.removed) == ([], [])
    assert ids(made) == [i for i in range(26) if i not in (3, 7, 21)]
    assert next_compaction(made) is None  # what was removed is forgotten, and counts no more


def test_removals_alone_are_taken_in_too() -> None:
    then = removed(sealed(20), *range(5))
    index = merge(then).segments[0].index
    assert isinstance(index, Counted) and index.removed == [0, 1, 2, 3, 4]


def test_a_static_index_is_built_for_segments_of_like_size() -> None:
    then = added(sealed(400, Static), *range(400, 405))
    made = merge(then, Static)
    assert [len(one) for one in made.segments] == [400, 5]
    assert all(one.is_sealed for one in made.segments)
    again = merge(added(made, *range(405, 410)), Static)
    assert [len(one) for one in again.segments] == [400, 10]
    assert ids(again) == list(range(410))
    large = merge(added(again, *range(410, 450)), Static)
    assert [len(one) for one in large.segments] == [450]
    assert ids(large) == list(range(450))


def test_the_tail_beside_a_static_index_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TAIL_SHARE", 1 / 2)
    monkeypatch.setattr(compaction, "LONGEST_TAIL", 6)
    for build, wanted in ((Static, False), (Counted, True)):
        then = added(sealed(40, build), *range(40, 46))
        assert next_compaction(then) is None
        assert (next_compaction(added(then, 46)) is None) is wanted


def test_many_at_once_are_built_in_bulk_before_they_are_seen() -> None:
    then = settled(added(sealed(20), *range(20, 31)), Counted)
    (one,) = then.segments
    assert isinstance(one.index, Counted) and (one.index.built, one.index.inserted) == (31, [])


def test_a_segment_of_removed_slots_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 5)
    then = removed(sealed(20, Static), *range(11))
    made = merge(then, Static)
    assert [len(one) for one in made.segments] == [9]
    assert ids(made) == list(range(11, 20))


def test_what_is_most_of_the_book_takes_the_others_along(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "SMALLEST_SHRINK", 5)
    monkeypatch.setattr(compaction, "SHORTEST_TAIL", 30)
    version = added(sealed(40, Static), 40, 41, 42)
    main, small = version.segments
    version = version.with_segments([main, replace(small, index=Static(small.segment.arrays))])
    then = removed(added(version, 50, 51), *range(11))
    assert [len(one) for one in then.segments] == [40, 3, 2]
    made = merge(then, Static)
    assert [len(one) for one in made.segments] == [34] and made.segments[0].is_sealed
    assert ids(made) == [*range(11, 43), 50, 51]
    plan = next_compaction(removed(added(sealed(40, Static), *range(40, 60)), *range(40, 52)))
    assert plan is not None and [len(one) for one in plan.inputs] == [20]  # a small one is made again alone


def test_an_older_generation_is_rekeyed() -> None:
    then = sealed(20, Static)
    then = updates.added(then, prepare(then.schema, [(99, f"a > {2**60}")]))
    assert len({one.segment.schema.generation for one in then.segments}) == 2
    made = merge(then, Static)
    assert {one.segment.schema.generation for one in made.segments} == {made.schema.generation}
    assert ids(made) == [*range(20), 99]


@pytest.mark.parametrize("build", [Counted, Static])
def test_what_happens_meanwhile_is_repeated(build: Any) -> None:
    start = removed(added(sealed(20, build), *range(20, 26)), 2, 22)
    wanted = next_compaction(start)
    assert wanted is not None
    done = run(start, wanted, build)
    later = removed(added(removed(start, 5, 23), 26, 27), 26)
    place = later.find(7)
    assert place is not None
    later = updates.replaced(later, place, later_version(7))
    made = installed(later, done)
    assert made is not None
    assert ids(made) == ids(later) == [i for i in range(28) if i not in (2, 22, 5, 23, 26)]
    assert made.next_sequence == later.next_sequence


def later_version(one: int) -> Any:
    from earmark.segment.builder import Subscription

    return Subscription(one, "a < 3")


def test_everything_is_removed_meanwhile() -> None:
    start = added(sealed(20), *range(20, 26))
    wanted = next_compaction(start)
    assert wanted is not None
    done = run(start, wanted, Counted)
    made = installed(removed(start, *range(26)), done)
    assert made is not None and made.segments == ()
    made = installed(removed(start, *range(20)), done)
    assert made is not None and ids(made) == list(range(20, 26))


def test_an_index_that_adapted_meanwhile_is_not_replaced() -> None:
    start = added(sealed(20), *range(20, 26))
    wanted = next_compaction(start)
    assert wanted is not None
    done = run(start, wanted, Counted)
    (main, tail), other = start.segments, Counted(start.segments[0].segment.arrays)
    from dataclasses import replace

    assert installed(start.with_segments([replace(main, index=other), tail]), done) is None


def test_merging_keeps_the_order_of_insertion() -> None:
    start = added(sealed(6, Static), 6, 7)
    place = start.find(1)
    assert place is not None
    start = updates.replaced(start, place, later_version(1))
    done = united(start, start.segments, Static)
    assert done.outputs[0].segment.is_ordered
    assert done.outputs[0].segment.ids.objects == list(range(8))
    assert [place.tolist() for place in done.places] == [[0, -1, 2, 3, 4, 5], [6, 7, 1]]


class TestCompactor:
    def test_merges_by_itself(self) -> None:
        m = Matcher("be_star_tree")
        m.add_many([(i, f"a > {i}") for i in range(2_000)])
        for i in range(2_000, 2_300):
            m.add(i, f"a > {i}")
        m._compactor.wait()
        assert m.stats()["compactions"] > 0
        assert m.stats()["index_tail"] < 300
        assert m.match({"a": 2_250}) == list(range(2_250))
        m.check()

    def test_writers_and_readers_do_not_wait(self, monkeypatch: pytest.MonkeyPatch) -> None:
        begun, go_on = Event(), Event()
        real = compaction.run

        def slow(*given: Any) -> Any:
            begun.set()
            assert go_on.wait(60)
            return real(*given)

        monkeypatch.setattr(compaction, "run", slow)
        m = Matcher("blocks")
        m.add_many([(i, f"a > {i}") for i in range(1_000)])
        m.add_many([(i, f"a > {i}") for i in range(1_000, 1_100)])
        assert begun.wait(60)
        m.add(1_100, "a > 7")
        m.remove(3)
        m.update(1_050, "a < 0")
        wanted = [i for i in range(11) if i != 3] + [1_100]
        assert m.match({"a": 10.5}) == wanted
        assert m.stats()["compactions"] == 0
        go_on.set()
        m._compactor.wait()
        assert m.stats()["compactions"] > 0
        assert m.match({"a": 10.5}) == wanted
        assert 1_050 in m and m.match({"a": -1}) == [1_050]
        m.check()

    def test_a_failure_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def failing(*given: Any) -> Any:
            raise MemoryError("no room")

        m = Matcher("blocks")
        m.add_many([(i, f"a > {i}") for i in range(1_000)])
        with monkeypatch.context() as patched:
            patched.setattr(compaction, "run", failing)
            m.add_many([(i, f"a > {i}") for i in range(1_000, 1_100)])
            m._compactor.wait()
        assert "no room" in str(m.stats()["compaction_problem"])
        with pytest.warns(RuntimeWarning, match="no room"):
            m.add(1_100, "a > 5")
        m.add(1_101, "a > 5")  # said once
        assert m.match({"a": 3.5}) == [0, 1, 2, 3]
        m.compact()
        assert m.stats()["compaction_problem"] is None and m.stats()["segments"] == 1
        m.check()

    def test_a_merge_of_one_segment(self) -> None:
        start = sealed(20)
        done = run(start, CompactionPlan(start.segments), Counted)
        assert done.places[0].tolist() == np.arange(20).tolist()
