"""A table forwarded the whole of a range that was not inside it, also the part that it had forwarded before, and
withdrew that part once. A receiver that counts, as a `RangeTable` does, counted the part twice and kept it for ever.
"""

from __future__ import annotations

import numpy as np

from earmark.cover import RangeTable


def test_what_overlaps_is_forwarded_once() -> None:
    sender, receiver = RangeTable(), RangeTable()
    for asked in ([(10, 20)], [(15, 30)], [(0, 40)]):
        receiver.subscribe(sender.subscribe(asked))
    for asked in ([(10, 20)], [(0, 40)], [(15, 30)]):
        receiver.unsubscribe(sender.unsubscribe(asked))
        assert receiver.ranges().pairs() == sender.ranges().pairs()
    assert not receiver.ranges()


def test_a_chain_of_tables_is_empty_when_everyone_has_left() -> None:
    rng = np.random.default_rng(4)
    for gap in (0, 3):
        chain = [RangeTable(gap) for _ in range(3)]
        live: list[list[tuple[int, int]]] = []
        for step in range(400):
            leaving = bool(live) and (step >= 300 or rng.random() < 0.4)
            first = int(rng.integers(0, 200))
            change = live.pop(int(rng.integers(len(live)))) if leaving else [(first, first + int(rng.integers(0, 40)))]
            if not leaving:
                live.append(change)
            passed = chain[0].unsubscribe(change) if leaving else chain[0].subscribe(change)
            for table in chain[1:]:
                passed = table.unsubscribe(passed) if leaving else table.subscribe(passed)
            assert len({tuple(table.ranges().pairs()) for table in chain}) == 1
        while live:
            passed = chain[0].unsubscribe(live.pop())
            for table in chain[1:]:
                passed = table.unsubscribe(passed)
        assert not any(table.ranges() for table in chain)
