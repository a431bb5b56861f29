"""The table: append, tombstone, views that never change, compaction, and how much room it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher
from earmark.model import bits
from earmark.model import table as module
from earmark.model.attribute import Schema
from earmark.model.intake import admit, prepare
from earmark.model.table import Table, spread_bytes
from earmark.workload import standard


def table(*conditions: str, **attributes: str) -> Table:
    schema = Schema()
    schema.declare(attributes)
    made = Table(schema)
    add(made, *conditions)
    return made


def add(made: Table, *conditions: str, **fields: Any) -> None:
    items = [{"id": f"s{made.slots + i}", "condition": c, **fields} for i, c in enumerate(conditions)]
    made.append(admit(made, prepare(made, items)))
    made.check()


def everything(view: Any) -> list[Any]:
    arrays = [a.tolist() for a in view.arrays]
    return [arrays, view.dead[: bits.words_for(view.slots)].tolist(), [view.asked(s) for s in range(view.slots)],
            [view.tags(s) for s in range(view.slots)], view.eligible().tolist(), view.live]  # fmt: skip


class TestViews:
    def test_never_change(self) -> None:
        """Whatever the writer does next."""
        made = table("a > 3", "s = 'k' OR b IS NULL")
        add(made, "TRUE", tags={"t": "1"}, score=2.0)
        view = made.view()
        before = everything(view)
        scoped = view.eligible((("t", "1"),)).tolist()
        add(made, *["a > 9 AND s = 'zz'"] * 100, tags={"t": "1"}, weights={"a": 2.0})
        made.remove(["s0", "s5"])
        made.rekey_strings(made.schema.by_name["s"].number, [b"m", b"n"])
        made.replace("s1", admit(made, prepare(made, [("s1", "a > 1")], replacing=True)))
        made.compacted()
        made.check()
        assert everything(view) == before
        assert view.eligible((("t", "1"),)).tolist() == scoped

    def test_arrays_are_read_only(self) -> None:
        for array in table("a > 3").view().arrays:
            assert not array.flags.writeable

    def test_defaults_are_stored_from_the_first_other_value(self) -> None:
        made = table("a > 3", "a > 3 AND b > 3")
        assert len(made.view().arrays.weight) == len(made.view().arrays.score) == len(made.view().tagset) == 0
        add(made, "a > 3", weights={"a": 5.0}, score=1.0, tags={"t": "1"})
        add(made, "a > 3")
        view = made.view()
        assert view.arrays.weight.tolist() == [1.0, 1.0, 1.0, 5.0, 1.0]
        assert view.arrays.score.tolist() == [0.0, 0.0, 1.0, 0.0]
        assert [view.tags(s) for s in range(4)] == [(), (), (("t", "1"),), ()]


class TestChanges:
    def test_slots_are_not_reused_and_sequence_goes_on(self) -> None:
        made = table("a > 3", "a > 4")
        made.remove(["s1"])
        made.append(admit(made, prepare(made, [("s1", "a > 5")])))
        made.check()
        assert made.slot_of == {"s0": 0, "s1": 2}
        assert made.view().arrays.sequence.tolist() == [0, 1, 2]
        again = made.compacted()
        again.check()
        assert again.view().arrays.sequence.tolist() == [0, 2]
        assert again.next_sequence == 3
        assert again.generation == made.generation + 1
        assert [again.view().asked(s) for s in range(2)] == ["a > 3", "a > 5"]

    def test_replace_keeps_the_sequence(self) -> None:
        made = table("a > 3", "a > 4", "a > 5")
        made.replace("s1", admit(made, prepare(made, [("s1", "a > 9")], replacing=True)))
        made.check()
        view = made.view()
        assert not view.ordered
        assert view.live_slots().tolist() == [0, 3, 2]
        again = made.compacted()
        assert again.view().ordered
        assert again.ids == ["s0", "s1", "s2"]

    def test_compaction_forgets_unused_constants(self) -> None:
        made = table(*(f"s = 'k{i}'" for i in range(20)), "s > 'k5' AND s <= 'k7'")
        made.remove([f"s{i}" for i in range(20)])
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
        made.slot_of["s0"] = 1
        with pytest.raises(AssertionError):
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
