"""The B+tree against a sorted list: with nodes of 8 entries, so that few make many levels, and with its own."""

from __future__ import annotations

import importlib.util
from bisect import bisect_right
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config

from earmark.cover.ranges import ordered as of_64
from earmark.jit import kernel

PLAIN = bool(config.DISABLE_JIT)
PUT, DELETE, SET = 0, 1, 2


@cache
def small() -> ModuleType:
    """The module once more, with nodes of 8: constants are read when a kernel is compiled."""
    spec = importlib.util.spec_from_file_location("ordered_of_8", of_64.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.NODE_BITS, module.NODE, module.FEW = 3, 8, 2  # type: ignore[attr-defined]
    return module


@cache
def kernels(tree: ModuleType) -> tuple[Any, Any]:
    """What the helpers do, from Python."""
    put, delete, set_value = tree.put, tree.delete, tree.set_value
    floor_cursor, next_cursor, sum_until = tree.floor_cursor, tree.next_cursor, tree.sum_until

    def change(ordered: Any, what: Any, keys: Any, values: Any) -> None:
        for i in range(len(keys)):
            if what[i] == PUT:
                put(ordered, keys[i], values[i])
            elif what[i] == DELETE:
                delete(ordered, floor_cursor(ordered, keys[i]))
            else:
                set_value(ordered, floor_cursor(ordered, keys[i]), values[i])

    def look(ordered: Any, keys: Any, floors: Any, following: Any, sums: Any) -> None:
        for i in range(len(keys)):
            cursor = floor_cursor(ordered, keys[i])
            sums[i] = sum_until(ordered, cursor)
            floors[i] = ordered.key[cursor] if cursor >= 0 else -1
            after = next_cursor(ordered, cursor)
            following[i] = ordered.key[after] if after >= 0 else -1

    for one in (change, look):  # the cache of kernels tells them apart by name
        one.__qualname__ = f"{one.__name__}_{tree.__name__}"
    return kernel(change), kernel(look)


def changed(tree: ModuleType, ordered: Any, what: Any, keys: Any, values: Any) -> Any:
    """The map after these changes, in one call with no more room than it asks for."""
    what, keys, values = (np.array(column, np.int64) for column in (what, keys, values))
    ordered = tree.with_room(ordered, int((what == PUT).sum()))
    kernels(tree)[0](ordered, what, keys, values)
    assert ordered.info[tree.USED] <= len(ordered.size), "there was not room enough"
    return ordered


def compare(tree: ModuleType, ordered: Any, wanted: dict[int, int], probes: Any) -> None:
    tree.check_ordered(ordered)
    keys = sorted(wanted)
    found = tree.entries(ordered)
    assert (found[0].tolist(), found[1].tolist()) == (keys, [wanted[key] for key in keys])
    probes = np.array(probes, np.int64)
    floors, following, sums = (np.empty(len(probes), np.int64) for _ in range(3))
    kernels(tree)[1](ordered, probes, floors, following, sums)
    totals = [0, *np.cumsum([wanted[key] for key in keys]).tolist()]
    places = [bisect_right(keys, probe) for probe in probes.tolist()]
    assert floors.tolist() == [keys[at - 1] if at else -1 for at in places]
    assert following.tolist() == [keys[at] if at < len(keys) else -1 for at in places]
    if ordered.info[tree.SUMMED]:
        assert sums.tolist() == [totals[at] for at in places]


@given(data=st.data(), summed=st.booleans())
@settings(deadline=None, max_examples=max(1, settings.default.max_examples // 2))
def test_any_changes(data: st.DataObject, summed: bool) -> None:
    """Up to three or four levels: nodes are cut, joined and evened out at all of them."""
    tree = small()
    ordered, wanted = tree.new_ordered(summed), {}
    for _ in range(data.draw(st.integers(1, 6))):
        grows = data.draw(st.booleans())
        seed = data.draw(st.integers(0, 2**32))
        rng = np.random.default_rng(seed)
        what, keys, values = [], [], []
        for _ in range(data.draw(st.integers(1, 40 if PLAIN else 200))):
            key, value = int(rng.integers(0, 400)), int(rng.integers(-5, 6))
            if rng.random() < 0.2 and wanted:
                key = int(rng.choice(sorted(wanted)))
                what.append(SET)
                wanted[key] = value
            elif key not in wanted and (grows or rng.random() < 0.2):
                what.append(PUT)
                wanted[key] = value
            elif key in wanted and (not grows or rng.random() < 0.2):
                what.append(DELETE)
                del wanted[key]
            else:
                continue
            keys.append(key)
            values.append(value)
        ordered = changed(tree, ordered, what, keys, values)
        compare(tree, ordered, wanted, rng.integers(-1, 402, 30))


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
@pytest.mark.parametrize("nodes", ["small", "own"])
def test_it_grows_and_goes_away(nodes: str, order: str) -> None:
    tree = small() if nodes == "small" else of_64
    size = 300 if PLAIN else 2_000 if nodes == "small" else 20_000
    rng = np.random.default_rng(3)
    keys = rng.choice(10 * size, size, replace=False)
    if order != "random":
        keys = np.sort(keys)[:: 1 if order == "ascending" else -1]
    values = rng.integers(-9, 10, size)
    ordered = changed(tree, tree.new_ordered(), np.zeros(size), keys, values)
    wanted = dict(zip(keys.tolist(), values.tolist(), strict=True))
    compare(tree, ordered, wanted, rng.integers(0, 10 * size, 50))
    levels = int(ordered.info[tree.LEVELS])
    assert PLAIN or levels >= (5 if nodes == "small" else 3)
    going = keys if order != "random" else rng.permutation(keys)
    for part in np.array_split(going, 4):
        ordered = changed(tree, ordered, np.full(len(part), DELETE), part, part)
        for key in part.tolist():
            del wanted[key]
        compare(tree, ordered, wanted, rng.integers(0, 10 * size, 50))
    assert (ordered.info[tree.LEVELS], ordered.info[tree.ENTRIES], ordered.info[tree.ROOT]) == (1, 0, 0)
    used = int(ordered.info[tree.USED])
    ordered = changed(tree, ordered, np.zeros(size), keys, values)
    assert ordered.info[tree.USED] == used, "free nodes were not used again"


def test_four_levels_of_its_own() -> None:
    if PLAIN:
        pytest.skip("needs a hundred thousand entries")
    size = 120_000
    ordered = changed(of_64, of_64.new_ordered(), np.zeros(size), np.arange(size), np.ones(size))
    assert ordered.info[of_64.LEVELS] == 4  # ascending keys leave nodes half full
    compare(of_64, ordered, dict.fromkeys(range(size), 1), [0, 31, 32, size // 2, size - 1, size])


def test_room_for_inserts_that_cut_every_node() -> None:
    """Nodes are full, deletions make room in none, and an insert into each cuts it: nothing lies beyond the arrays."""
    tree = small()
    size = 64 if PLAIN else 4_096
    ordered = changed(tree, tree.new_ordered(), np.zeros(size), np.arange(size) * 1_000, np.ones(size))
    wanted = dict.fromkeys((np.arange(size) * 1_000).tolist(), 1)
    for gap in (500, 250, 750, 125):
        keys = np.arange(size) * 1_000 + gap
        ordered = changed(tree, ordered, np.zeros(size), keys, np.ones(size))
        wanted.update(dict.fromkeys(keys.tolist(), 1))
    compare(tree, ordered, wanted, [0, 1, 499, 500, 1_000 * size])


def test_the_greatest_and_the_least_key() -> None:
    ends = [-(2**63), 2**63 - 1]
    ordered = changed(of_64, of_64.new_ordered(), [PUT, PUT], ends, [3, 4])
    compare(of_64, ordered, dict(zip(ends, [3, 4], strict=True)), [*ends, 0])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda t: t.key.__setitem__(3, 10**9), "ascend"),
        (lambda t: t.value.__setitem__(3, 77), "summed wrong"),
        (lambda t: t.info.__setitem__(of_64.USED, 10), "lost"),
        (lambda t: t.link.__setitem__(t.child[t.info[of_64.ROOT] * 64 + 1], 0), "linked"),
    ],
)
def test_check_tells_what_is_wrong(damage: Any, sentence: str) -> None:
    ordered = changed(of_64, of_64.new_ordered(), np.zeros(200), np.arange(200), np.ones(200))
    of_64.check_ordered(ordered)
    damage(ordered)
    with pytest.raises(AssertionError, match=sentence):
        of_64.check_ordered(ordered)
