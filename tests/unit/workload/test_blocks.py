"""Tables of any length in blocks: the same rows however they are cut, and those of the generators where promised."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from earmark import EarmarkError, Matcher
from earmark.workload import begen, skew, standard
from earmark.workload.ads import Campaigns, visitors
from earmark.workload.blocks import ADS_BLOCK, TABLES, BlockTable, find
from earmark.workload.endless import seed_of_block

ALL = [(w, t, f) for w in sorted(TABLES) for t in TABLES[w] for f in TABLES[w][t].forms]
# The others share their code; their first rows take seconds.
QUICK = ("ads", "w2", "begen", "skew-90-10", "mics-zipf", "zipf-4", "rectangles")


def read(blocks: BlockTable, start: int, end: int) -> pa.Table:
    return pa.Table.from_batches(list(blocks.rows(start, end)), blocks.schema)


@pytest.mark.parametrize(("workload", "table", "form"), [one for one in ALL if one[0] in QUICK and one[2] != "columns"])
def test_rows_do_not_depend_on_how_they_are_cut(workload: str, table: str, form: str) -> None:
    blocks = find(workload, table, form=form)
    border = blocks.size
    whole = read(blocks, border - 40, border + 60)
    assert whole.num_rows == 100
    cuts = (border - 40, border - 17, border + 60)
    parts = [read(find(workload, table, form=form), begin, end) for begin, end in pairwise(cuts)]
    assert pa.concat_tables(parts).equals(whole)
    name = whole.column_names[0]
    assert [str(v).removeprefix("ad-") for v in whole.column(name).to_pylist()] == [
        str(n) for n in range(border - 40, border + 60)
    ]


@pytest.mark.parametrize(
    ("workload", "table"), [(w, t) for w in ("ads", "skew-90-10", "mics-zipf") for t in ("subscriptions", "events")]
)
def test_another_seed_is_other_data(workload: str, table: str) -> None:
    one, other = (read(find(workload, table, seed), 0, 20) for seed in (5, 6))
    assert not one.equals(other)
    assert one.equals(read(find(workload, table, 5), 0, 20))


def test_the_first_ads_are_the_generator_s() -> None:
    got = read(find("ads", "subscriptions", 7), 0, 50).to_pylist(maps_as_pydicts="strict")
    assert got == list(Campaigns(50, 7))
    crowd = [{"event": n, **who} for n, who in enumerate(visitors(50, 7))]
    got = read(find("ads", "events", 7), 0, 50).to_pylist()
    assert [{k: v for k, v in row.items() if v is not None} for row in got] == crowd
    second = read(find("ads", "events", 7), ADS_BLOCK, ADS_BLOCK + 5).to_pylist()
    again = list(visitors(5, seed_of_block(7, 1)))
    assert [{k: v for k, v in row.items() if v is not None and k != "event"} for row in second] == again


def ranges(attr: Any, lo: Any, hi: Any) -> list[list[dict[str, Any]]]:
    return [
        [{"attribute": f"a{a}", "lo": x, "hi": y} for a, x, y in zip(*row, strict=True) if a >= 0]
        for row in zip(attr.tolist(), lo.tolist(), hi.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", ["w1", "w2"])
def test_the_first_rows_of_standard_workloads(name: str) -> None:
    data = standard.WORKLOADS[name](subscriptions=60)
    got = read(find(name, "subscriptions"), 0, 60).column("ranges").to_pylist()
    assert got == ranges(data.sub_attr, data.sub_lo, data.sub_hi)
    events = read(find(name, "events", form="map"), 0, 1_000).column("attributes").to_pylist()
    assert events == [
        [(f"a{a}", v) for a, v in zip(*row, strict=True)]
        for row in zip(data.event_attr.tolist(), data.event_value.tolist(), strict=True)
    ]


def test_the_first_rows_of_begen_and_skew() -> None:
    made = begen.generate(begen.Setting(subscriptions=50_000, seed=3))
    got = read(find("begen", "subscriptions", 3), 0, 40)
    assert got.column("ranges").to_pylist() == ranges(made.sub_attr[:40], made.sub_lo[:40], made.sub_hi[:40])
    pairs = zip(made.sub_attr[:40], made.sub_weight[:40], strict=True)
    weights = [[w for a, w in zip(*row, strict=True) if a >= 0] for row in pairs]
    assert [[w for _, w in row] for row in got.column("weights").to_pylist()] == weights
    flat = skew.skew("uniform", 40, seed=4)
    got = read(find("skew-uniform", "subscriptions", 4), 0, 40)
    assert got.column("ranges").to_pylist() == ranges(flat.sub_attr, flat.sub_lo, flat.sub_hi)


def matches_an_event(workload: str, start: int, events: int) -> float:
    """How many of 20,000 subscriptions, from row `start` on, an event matches; events from that row on as well."""
    matcher = Matcher()
    matcher.add_many(read(find(workload, "subscriptions"), start, start + 20_000))
    rows = read(find(workload, "events"), events, events + 400).drop_columns(["event"])
    return matcher.match_many(rows).num_rows / 400


@pytest.mark.parametrize("workload", ["w1", "w2", "begen", "skew-90-10"])
def test_what_comes_later_is_like_what_comes_first(workload: str) -> None:
    """As many matches an event beyond the first rows as among them, within the noise of 400 events."""
    size = find(workload, "subscriptions").size
    first = matches_an_event(workload, 0, 0)
    later = matches_an_event(workload, size * 20, 5_000)
    assert first > 0.2
    assert 0.6 < later / first < 1.6


@pytest.mark.parametrize("workload", ["w1u", pytest.param("w1z", marks=pytest.mark.slow)])
def test_half_of_the_later_events_match_an_early_subscription(workload: str) -> None:
    matcher = Matcher()
    matcher.add_many(read(find(workload, "subscriptions"), 0, 10_000))
    rows = read(find(workload, "events"), 3_000, 4_000).drop_columns(["event"])
    found = np.unique(matcher.match_many(rows).column("event").to_numpy())
    assert set(range(0, 1_000, 2)) <= set(found.tolist())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("w9", "events"), "expected a workload, one of ads, begen, .*, got 'w9'"),
        (("w2", "rows"), "expected a table, one of events, subscriptions, got 'rows'"),
        (("ads", "events", 1, "map"), "expected a form of the events of ads, one of columns, got 'map'"),
        (("ads", "events", -1), "expected a seed from 0"),
    ],
)
def test_sentences(arguments: Any, told: str) -> None:
    with pytest.raises(EarmarkError, match=told):
        find(*arguments)
