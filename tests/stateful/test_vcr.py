"""Whole lifetimes of a VCR index.

The delta is so small here, and removals so many, that lists are merged and built anew all the time.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.stateful.lifetimes import Lifetime, short

from earmark.index import vcr
from earmark.index.vcr import VcrIndex, build

CHOICES: dict[str, tuple[Any, ...]] = {
    "mode": ("cells", "points"),
    "store": (None, "array", "hashed"),
    "decomposition": (None, "simple", "overlapped"),
    "numbering": (None, "corner", "shape"),
    "longest": (None, (1, 1), (4, 2), (16, 16)),
    "cells": (None, (2, 2), (6, 30)),
    "attributes": (None, (0, 1), (1,)),
}


class VcrLifetime(Lifetime):
    kind = VcrIndex
    choices = CHOICES


@pytest.fixture(autouse=True, scope="module")
def small() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "FEWEST_LATE", 30)
        patch.setattr(vcr, "FEWEST_GONE", 4)
        yield


TestLifetime = VcrLifetime.TestCase
TestLifetime.settings = short
