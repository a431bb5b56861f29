"""The worked figures and theorems of the VCR paper (vcr.txt), as golden values."""

from __future__ import annotations

from itertools import pairwise, product
from pathlib import Path
from random import Random

import numpy as np
import pytest

from earmark.flat import bits
from earmark.index.vcr import VcrIndex
from earmark.index.vcr.arrays import VCRS
from earmark.index.vcr.build import add_keys, find, home
from earmark.index.vcr.rectangles import (
    CORNER,
    OVERLAPPED,
    SHAPE,
    SIMPLE,
    Vcr,
    count_pieces,
    decompose,
    distances,
    drawing,
    exponent,
    runs_of,
    steps,
    vcr_id,
)
from earmark.workload.skew import MODERATE, skew

PAGE = Path(__file__).parents[2] / "docs/papers/vcr.md"
EXAMPLE = Vcr(3, 3, 11, 6)
FOUR = (4, 4)


def covers(vcr: Vcr, x: float, y: float) -> bool:
    """Closed, as the paper has it: on a border is inside."""
    return vcr.x <= x <= vcr.x + vcr.width and vcr.y <= y <= vcr.y + vcr.height


def all_vcrs(x: range, y: range, longest: tuple[int, int]) -> list[Vcr]:
    sides = [[1 << k for k in range(exponent(side) + 1)] for side in longest]
    return [Vcr(a, b, w, h) for b, a in product(y, x) for h, w in product(sides[1], sides[0])]


def test_figure_1_nine_vcrs_at_the_origin() -> None:
    nine = all_vcrs(range(1), range(1), FOUR)
    assert [vcr_id(vcr, 100, FOUR) for vcr in nine] == list(range(9))
    assert nine[0] == Vcr(0, 0, 1, 1)
    assert nine[8] == Vcr(0, 0, 4, 4)
    assert [(v.width, v.height) for v in nine[:4]] == [(1, 1), (2, 1), (4, 1), (1, 2)]


@pytest.mark.parametrize("numbering", [CORNER, SHAPE])
def test_equation_1_gives_every_vcr_an_id_of_its_own(numbering: str) -> None:
    wide, high, longest = 7, 5, (4, 2)
    vcrs = all_vcrs(range(wide), range(high), longest)
    ids = [vcr_id(vcr, wide, longest, numbering) for vcr in vcrs]
    assert sorted(ids) == list(range(wide * high * 6))
    if numbering == CORNER:  # the horizontal scan of Fig. 1(b)
        assert ids == sorted(ids)
        assert vcr_id(Vcr(2, 3, 4, 2), wide, longest) == 6 * (2 + 3 * 7) + 1 * 3 + 2


def test_figure_3_simple_decomposition() -> None:
    made = decompose(EXAMPLE, FOUR, SIMPLE)
    assert made == [
        Vcr(3, 3, 4, 4), Vcr(7, 3, 4, 4), Vcr(11, 3, 2, 4), Vcr(13, 3, 1, 4),
        Vcr(3, 7, 4, 2), Vcr(7, 7, 4, 2), Vcr(11, 7, 2, 2), Vcr(13, 7, 1, 2),
    ]  # fmt: skip
    shared = [(x, y) for x in range(20) for y in range(20) if covers(made[0], x, y) and covers(made[1], x, y)]
    assert shared == [(7, y) for y in range(3, 8)]


def test_figure_4_overlapped_decomposition() -> None:
    made = decompose(EXAMPLE, FOUR, OVERLAPPED)
    assert made == [Vcr(x, y, 4, 4) for y in (3, 5) for x in (3, 7, 10)]
    shared = [(x, y) for x in range(20) for y in range(20) if covers(made[1], x, y) and covers(made[2], x, y)]
    assert shared == [(x, y) for x in (10, 11) for y in range(3, 8)]


def test_strips_are_as_high_as_the_text_says() -> None:
    assert [v.height for v in decompose(Vcr(0, 0, 1, 5), (8, 8))] == [4, 1]
    assert [v.height for v in decompose(Vcr(0, 0, 1, 10), (8, 8))] == [8, 2]


@pytest.mark.parametrize("decomposition", [SIMPLE, OVERLAPPED])
def test_decompositions_cover_exactly_the_rectangle(decomposition: str) -> None:
    random = Random(4)
    for _ in range(200):
        rectangle = Vcr(random.randrange(9), random.randrange(9), random.randint(1, 40), random.randint(1, 20))
        longest = (1 << random.randrange(5), 1 << random.randrange(5))
        made = decompose(rectangle, longest, decomposition)
        hits = np.zeros((60, 60), int)
        for v in made:
            assert v.width <= longest[0]
            assert v.height <= longest[1]
            hits[v.x : v.x + v.width, v.y : v.y + v.height] += 1
        inside = np.zeros((60, 60), bool)
        x, y, w, h = rectangle
        inside[x : x + w, y : y + h] = True
        assert ((hits > 0) == inside).all()
        assert decomposition == OVERLAPPED or hits.max() == 1
        over = decomposition == OVERLAPPED
        assert len(made) == count_pieces(w, exponent(longest[0]), over) * count_pieces(h, exponent(longest[1]), over)


def test_theorem_1_constant_size() -> None:
    assert len(distances(steps(CORNER, 100, 2, 2), 2, 2)) == 10 * 10
    one_row_and_height = distances(steps(CORNER, 100, 2, 0), 2, 0)
    assert len(one_row_and_height) == 10 * 2
    for kx, ky in product(range(6), range(6)):
        lx, ly = 1 << kx, 1 << ky
        step = steps(CORNER, 1000, kx, ky)
        assert len(distances(step, kx, ky)) == (2 * lx + kx) * (2 * ly + ky)
        assert len(distances(step, kx, ky, open_x=True, open_y=True)) == (2 * lx - 1) * (2 * ly - 1)


@pytest.mark.parametrize("numbering", [CORNER, SHAPE])
def test_theorem_2_identical_gap_pattern(numbering: str) -> None:
    """Pivot plus one distance table gives the covering set, of grid points and of points between them."""
    random = Random(6)
    for _ in range(12):
        longest = (1 << random.randrange(5), 1 << random.randrange(4))
        kx, ky = exponent(longest[0]), exponent(longest[1])
        wide, high = 3 * longest[0] + 2, 3 * longest[1] + 2
        step = steps(numbering, wide, kx, ky)
        vcrs = all_vcrs(range(wide), range(high), longest)
        gaps = set()
        for between_x, between_y in product((0.0, 0.5), (0.0, 0.5)):
            table = distances(step, kx, ky, bool(between_x), bool(between_y))
            for _ in range(3):
                a = random.randint(longest[0], wide - longest[0] - 1)
                b = random.randint(longest[1], high - longest[1] - 1)
                covering = sorted(
                    vcr_id(v, wide, longest, numbering) for v in vcrs if covers(v, a + between_x, b + between_y)
                )
                pivot = vcr_id(Vcr(a - longest[0], b - longest[1], 1, 1), wide, longest, numbering)
                assert (pivot + table).tolist() == covering
                gaps.add((between_x, between_y, tuple(j - i for i, j in pairwise(covering))))
        assert len(gaps) == 4


def test_runs_are_the_distance_table() -> None:
    for numbering, runs in ((CORNER, 232), (SHAPE, 75)):
        table = distances(steps(numbering, 500, 4, 3), 4, 3, open_x=True, open_y=True)
        joined = runs_of(table)
        assert len(table) == 31 * 15
        assert len(joined.first) == runs
        spelled = [v for first, last in zip(*joined, strict=True) for v in range(first, last + 1)]
        assert spelled == table.tolist()


def test_the_paper_s_index_in_points_and_ours_in_cells_answer_alike() -> None:
    """Points on borders, in corners of the range, and outside it; both decompositions, both stores."""
    made = skew("90-10", 400, events=1)
    table = made.table()
    side = np.array(MODERATE)
    value = np.concatenate([made.sub_lo[:40], made.sub_hi[:40], [[0, 0], side - 1, [-5, 3], [7, 10**6]]])
    events = made._replace(event_attr=np.tile(made.event_attr[:1], (len(value), 1)), event_value=value).events()
    inside = ((made.sub_lo <= value[:, None]) & (value[:, None] <= made.sub_hi)).all(axis=2)
    for mode, store, decomposition in product(("points", "cells"), ("array", "hashed"), (SIMPLE, OVERLAPPED)):
        index = VcrIndex.build(
            table, longest=(16, 8), mode=mode, store=store, decomposition=decomposition, numbering=CORNER
        )
        pointers, slots = index.match_many(events, bits.all_set(400))
        assert np.diff(pointers).tolist() == inside.sum(axis=1).tolist()
        assert slots.tolist() == np.nonzero(inside)[1].tolist()


def test_section_2_vcrs_of_the_grid() -> None:
    """B Rx Ry of them, and those that border points need."""
    made = skew("uniform", 2_000)
    index = VcrIndex.build(made.table(), longest=(16, 8), mode="points")
    cells = index.describe()["cells"]
    assert index.arrays.info[VCRS] == 5 * 4 * (cells[0] + 17) * (cells[1] + 9)


def test_overlapped_activates_fewer_vcrs() -> None:
    """Section 3.5, on the paper's sizes."""
    table = skew("90-10", 8_000).table()
    activated = {
        way: VcrIndex.build(table, longest=(16, 8), decomposition=way).describe()["activated"]
        for way in (SIMPLE, OVERLAPPED)
    }
    assert activated[OVERLAPPED] < activated[SIMPLE]


@pytest.mark.parametrize("size", [10_007, 10_000, 1 << 13])
def test_clustered_ids_are_spread_over_a_hash_table_of_any_size(size: int) -> None:
    """Section 2.2.3: randomised first. Half full, a table of random numbers has runs of about 1.5 places."""
    for stride in (1, 20, 20 * 300):
        keys = np.full(size, -1, np.int64)
        codes = 10**6 + stride * np.arange(size // 2, dtype=np.int64)
        assert add_keys(codes, keys, size) == size // 2
        steps_taken = [(find(keys, int(code)) - home(int(code), size)) % size for code in codes[::7]]
        assert np.mean(steps_taken) < 1.0


OPTIONS: dict[str, tuple[object, object]] = {
    "attributes": ((0,), (0, 1)),
    "longest": ((4, 4), (16, 8)),
    "cells": ((20, 20), (200, 200)),
    "mode": ("points", "cells"),
    "decomposition": ("simple", "overlapped"),
    "store": ("array", "hashed"),
    "numbering": ("corner", "shape"),
    "hash_size": (40_009, 80_021),
}


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_changes_the_index(option: str) -> None:
    """Its arrays differ, and its answers do not."""
    made = skew("90-10", 2_000, events=50)
    fixed = {"store": "hashed"} if option == "hash_size" else {}
    first, second = (VcrIndex.build(made.table(), **fixed, **{option: value}) for value in OPTIONS[option])
    same = [np.array_equal(a, b) for a, b in zip(first.arrays, second.arrays, strict=True)]
    names = dict(zip(first.arrays._fields, same, strict=True))
    assert not all(equal for name, equal in names.items() if name not in ("options", "info")), names
    answers = [index.match_many(made.events(), bits.all_set(2_000)) for index in (first, second)]
    assert [column.tolist() for column in answers[0]] == [column.tolist() for column in answers[1]]


def test_the_drawings_of_the_page_are_the_code_s() -> None:
    text = PAGE.read_text()
    for decomposition in (SIMPLE, OVERLAPPED):
        for line in drawing(EXAMPLE, decompose(EXAMPLE, FOUR, decomposition)).splitlines():
            assert line in text
