"""In a table most of whose slots had been removed, every insert planned a new space and built the whole index anew."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.index import mics as module
from earmark.index.mics import MicsIndex
from earmark.workload.mics import mics


def test_a_space_is_planned_when_what_is_held_has_doubled(monkeypatch: pytest.MonkeyPatch) -> None:
    table = mics("uniform", 1_000, 1, attributes=3, sizes=16).table()
    planned = []
    build = module.built

    def counted(*args: object) -> object:
        planned.append(args)
        return build(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "built", counted)
    index = MicsIndex.build(table)
    index.remove(np.arange(100, 1_000, dtype=np.int32))
    for slot in range(100, 150):
        index.insert(table, np.array([slot], np.int32))
    assert len(planned) == 1
    index.insert(table, np.arange(150, 1_000, dtype=np.int32))
    assert len(planned) == 1
    index.check()
