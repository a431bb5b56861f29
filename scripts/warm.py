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

FIRST = ("be_star_tree", "blocks", "interval_tree", "scan", "vcr", "mics", "k_index", "bitsets")
"""What takes longest goes first; variants share the kernels of these."""


BROKERS, COMPARING = "brokers", "comparing"


def warm(name: str) -> None:
    """Compile what an index needs, or brokers, or comparing subscriptions."""
    from earmark.overlay.warming import warm_brokers
    from earmark.warming import warm_audit, warm_index

    if name == BROKERS:
        warm_brokers()
    elif name == COMPARING:
        warm_audit()
    else:
        warm_index(name)


def main() -> int:
    from earmark import index

    names = [*FIRST, COMPARING, BROKERS, *(name for name in index.names() if name not in FIRST)]
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(warm, name) for name in names]):
            done.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
