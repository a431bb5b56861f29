"""Compile the kernels of every index into this user's kernel cache, on all cores, before many processes need them.

    python scripts/warm.py

Two test workers that start with an empty cache would each compile what the other compiles too. With a full cache this
takes some seconds.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

os.environ["EARMARK_QUIET"] = "1"

FIRST = ("be_star_tree", "blocks", "interval_tree", "scan", "vcr", "mics", "k_index")
"""What takes longest goes first; variants share the kernels of these."""


def warm(name: str) -> str:
    """Use an index in every way that has kernels of its own."""
    import earmark

    if name == "cover":
        m = earmark.Matcher("scan")
        m.add_many([(i, f"a BETWEEN {i} AND {i + 5}") for i in range(50)])
        m.audit()
        m.covers(3)
        return name
    m = earmark.Matcher(name)
    m.add_many([(i, f"a BETWEEN {i} AND {i + 5} AND b > {i % 7}") for i in range(300)])
    events = [{"a": 5, "b": 9}, {"a": earmark.Interval(3, 8)}]
    for _ in range(2):
        m.match_many(events)
        m.match(events[0])
        for mode in ("exact", "relaxed"):
            m.top_k_many(events, 3, mode=mode)
        m.add_many([(1000 + i, "a > 3") for i in range(140)] if 1000 not in m else [])
        m.remove_many([i for i in range(140) if i in m])
    m._state.index.check()
    return name


def main() -> int:
    from earmark import index

    names = [*FIRST, "cover", *(name for name in index.names() if name not in FIRST)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(warm, name) for name in names]):
            done.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
