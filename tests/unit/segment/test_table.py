"""The table: append, tombstone, moments that never change, compaction, and how much room it takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from earmark.segment.table import Table, spread_bytes

from earmark import EarmarkError, Matcher
from earmark.flat import bits
from earmark.flat.growable import Listed
from earmark.keys.schema import Schema
from earmark.segment import table as module
from earmark.segment.builder import admitted, prepare, replaced
from earmark.segment.lookups import Lookups
from earmark.workload import standard


def table(*conditions: str, **attributes: str) -> Table:
    schema = Schema()
    schema.declare(attributes)
    return added(Table.empty(schema), *conditions)


def added(made: Table, *conditions: str, **fields: Any) -> Table:
    items = [{"id": f"s{made.slots + i}", "condition": c, **fields} for i, c in enumerate(conditions)]
    made = admitted(made, prepare(made, items))
    made.check()
    return made


def removed(made: Table, *ids: str) -> Table:
    made = made.removed(slots(made, *ids))
    made.check()
    return made


def slots(made: Table, *ids: str) -> Any:
    return np.array([made.find(one) for one in ids], np.int64)


def everything(view: Any) -> list[Any]:
    arrays = [a.tolist() for a in view.arrays]
    return [arrays, view.dead[: bits.words_for(view.slots)].tolist(), [view.asked(s) for s in range(view.slots)],
            [view.tags(s) for s in range(view.slots)], view.eligible().tolist(), view.live]  # fmt: skip


class TestMoments:
    def test_never_change(self) -> None:
        """Whatever is made of them next."""
        made = added(table("a > 3", "s = 'k' OR b IS NULL"), "TRUE", tags={"t": "1"}, score=2.0)
        moments = [(made, everything(made), made.eligible((("t", "1"),)).tolist())]

        def then(other: Table) -> Table:
            other.check()
            moments.append((other, everything(other), other.eligible((("t", "1"),)).tolist()))
            return other

        made = then(added(made, *["a > 9 AND s = 'zz'"] * 100, tags={"t": "1"}, weights={"a": 2.0}))
        made = then(removed(made, "s0", "s5"))
        made = then(made.relabelled(made.schema.by_name["s"].number, [b"m", b"n"]))
        made = then(replaced(made, slots(made, "s1"), [("s1", f"a > {2**60}")]))
        made = then(removed(made, "s1"))
        made = then(made.compacted())
        for moment, before, scoped in moments:
            moment.check()
            assert everything(moment) == before
            assert moment.eligible((("t", "1"),)).tolist() == scoped

    def test_two_futures_of_one_moment(self) -> None:
        """As after a change that was given up."""
        made = table("a > 3", "s = 'k'")
        given_up = added(made, "a > 4", "s = 'm'", tags={"t": "1"})
        other = added(made, "a > 5 OR b", tags={"t": "2"})
        assert given_up.find("s3") == 3
        assert (other.find("s2"), other.find("s3")) == (2, None)
        assert [other.asked(s) for s in range(3)] == ["a > 3", "s = 'k'", "a > 5 OR b"]
        assert other.eligible((("t", "1"),)).tolist() == [0]
        assert other.eligible((("t", "2"),)).tolist() == [4]
        assert given_up.eligible((("t", "1"),)).tolist() == [12]
        assert given_up.eligible((("t", "2"),)).tolist() == [0]
        for moment in (made, given_up, other):
            moment.check()

    def test_arrays_are_read_only(self) -> None:
        for array in table("a > 3").arrays:
            assert not array.flags.writeable

    def test_defaults_are_stored_from_the_first_other_value(self) -> None:
        made = table("a > 3", "a > 3 AND b > 3")
        assert len(made.arrays.weight) == len(made.arrays.score) == len(made.tagset) == 0
        made = added(made, "a > 3", weights={"a": 5.0}, score=1.0, tags={"t": "1"})
        view = added(made, "a > 3")
        assert view.arrays.weight.tolist() == [1.0, 1.0, 1.0, 5.0, 1.0]
        assert view.arrays.score.tolist() == [0.0, 0.0, 1.0, 0.0]
        assert [view.tags(s) for s in range(4)] == [(), (), (("t", "1"),), ()]


class TestChanges:
    def test_slots_are_not_reused_and_sequence_goes_on(self) -> None:
        made = table("a > 3", "a > 4")
        made = removed(made, "s1")
        made = admitted(made, prepare(made, [("s1", "a > 5")]))
        made.check()
        assert slots(made, "s0", "s1").tolist() == [0, 2]
        assert made.arrays.sequence.tolist() == [0, 1, 2]
        again = made.compacted()
        again.check()
        assert again.arrays.sequence.tolist() == [0, 2]
        assert again.next_sequence == 3
        assert again.generation == made.generation + 1
        assert [again.asked(s) for s in range(2)] == ["a > 3", "a > 5"]

    def test_replace_keeps_the_sequence(self) -> None:
        made = table("a > 3", "a > 4", "a > 5")
        made = replaced(made, slots(made, "s1"), [("s1", "a > 9")])
        made.check()
        assert not made.ordered
        assert made.live_slots().tolist() == [0, 3, 2]
        again = made.compacted()
        assert again.ordered
        assert again.ids == ["s0", "s1", "s2"]

    def test_compaction_forgets_unused_constants(self) -> None:
        made = table(*(f"s = 'k{i}'" for i in range(20)), "s > 'k5' AND s <= 'k7'")
        made = removed(made, *(f"s{i}" for i in range(20)))
        again = made.compacted()
        again.check()
        assert set(again.schema.strings[0].constants()) <= {b"", b"k5", b"k7"}
        assert len(made.schema.strings[0]) == 21

    def test_too_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "_INT32_MAX", 5)
        m = Matcher()
        m.add(0, "a IN (1, 3, 5)")
        with pytest.raises(EarmarkError, match="at most 2,147,483,647 intervals"):
            m.add(1, "a IN (1, 3, 5)")
        assert m.ids() == [0]

    def test_check_finds_what_is_broken(self) -> None:
        made = table("a > 3", "a > 4")
        for broken in (
            replace(made, live=1),
            replace(made, uses=made.uses + 1),
            replace(made, dead=bits.set_slots(made.dead, np.array([1]))),
            replace(made, columns=replace(made.columns, ids=Listed(["s0"]))),
            replace(made, columns=replace(made.columns, ids=Listed(["s0", "s0"])), lookups=Lookups()),
        ):
            with pytest.raises(AssertionError):
                broken.check()
        made.check()


def test_spread_bytes() -> None:
    starts, positions = spread_bytes(np.array([0, 2, 2, 5]), np.array([2, 1, 0]))
    assert starts.tolist() == [0, 3, 3, 5]
    assert positions.tolist() == [2, 3, 4, 0, 1]


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
