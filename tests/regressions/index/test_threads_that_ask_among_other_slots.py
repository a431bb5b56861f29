"""Single events of several scopes at once, on an index with a scanned rest: each answers among its own slots.

The rest of the last scope is kept for the next event. Read twice, it could be that of another thread.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from earmark import Matcher

TENANTS = 4


def test_each_scope_has_its_own_answers() -> None:
    m = Matcher("mics")
    rows = [
        {"id": i, "condition": f"a != {i} OR b = {i}", "tags": {"tenant": str(i % TENANTS)}}
        for i in range(TENANTS * 300)
    ]
    m.add_many(rows, progress=False)
    expected = [m.match({"a": 0}, scope={"tenant": str(t)}) for t in range(TENANTS)]
    assert all(len(one) >= 299 for one in expected)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(TENANTS) as pool:
            asked = [number % TENANTS for number in range(800)]
            found = pool.map(lambda t: m.match({"a": 0}, scope={"tenant": str(t)}), asked)
            assert all(got == expected[t] for t, got in zip(asked, found, strict=True))
    finally:
        sys.setswitchinterval(before)
