"""What the tests of benchmarks share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def _nothing_to_collect() -> None:
    """Benchmarks call the collector before every run; it need not look at what other tests have left behind."""
    gc.freeze()
