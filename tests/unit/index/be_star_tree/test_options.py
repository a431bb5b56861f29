"""Every documented option of BE*-Tree, BE-Tree and k-index does something: another structure, or other work."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from earmark.flat import bits
from earmark.index.be_star_tree import BEStarTree
from earmark.index.be_star_tree.be_tree import BETree
from earmark.index.driver import ArrayIndex
from earmark.index.k_index import KIndex
from earmark.workload.shifting import DOMAIN, hot_values
from earmark.workload.standard import Workload

PAGE = Path(__file__).parents[4] / "docs" / "papers" / "be-star-tree.md"
KINDS: dict[str, Any] = {"be_star_tree": BEStarTree, "be_tree": BETree, "k_index": KIndex}
CHANGES: dict[str, Any] = {
    "alpha": 0.4,
    "beta": 1.0,
    "capacity": 10,
    "split": "approximate",
    "ranking": "histogram",
    "extension": 5_000.0,
    "bulk": False,
    "fanout": 16,
    "merge": "counting",
}
SIZE = 600


def workload() -> Workload:
    """Ranges on half of the attributes hold everything, so that these tell nothing."""
    data = hot_values(SIZE, 20, 3)[0]
    wide = data.sub_attr % 2 == 0
    return data._replace(sub_lo=np.where(wide, 0, data.sub_lo), sub_hi=np.where(wide, DOMAIN, data.sub_hi))


def documented() -> list[tuple[str, str]]:
    """Index and option, from the table on the page."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.read_text().partition("## Options")[2], re.MULTILINE)
    return [(name, option) for option, of in rows for name in re.findall(r"`(\w+)`", of)]


def test_the_page_has_every_option() -> None:
    found = [(name, one) for name, kind in KINDS.items() for one in list(inspect.signature(kind.build).parameters)[1:]]
    assert sorted(documented()) == sorted(found)


def seen(index: ArrayIndex[Any]) -> tuple[Any, ...]:
    """The structure, but not the options in it; and the work of a search."""
    data = workload()
    if index.is_updatable:
        index.insert(data.table(), np.arange(SIZE // 2, SIZE, dtype=np.int32))
    index.match_many(data.events(), bits.all_set(SIZE))
    structure = {name: array.tolist() for name, array in index.arrays._asdict().items() if name not in ("head", "knob")}
    return structure, index.work


@pytest.mark.parametrize(("name", "option"), documented())
def test_an_option_makes_a_difference(name: str, option: str) -> None:
    data = workload()
    table = (data.head(SIZE // 2) if KINDS[name].is_updatable else data).table()
    plain, changed = (KINDS[name].build(table, **options) for options in ({}, {option: CHANGES[option]}))
    assert seen(plain) != seen(changed)
