"""Whole lifetimes of a MICS index, also when it learns its cells from events."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.stateful.lifetimes import Lifetime, seeds, short
from tests.unit.made import Made, event_arrays

from earmark.index.mics import MicsIndex, build

CHOICES: dict[str, tuple[Any, ...]] = {
    "attributes": (None, (0,), (1, 0), (0, 1, 2)),
    "bits": (None, 1, 3, 6),
    "cells": ("variable", "equal"),
    "most": (1, 3),
    "pieces": (1, 5, 64),
}


class MicsLifetime(Lifetime):
    kind = MicsIndex
    choices = CHOICES

    @rule(seed=seeds, count=st.sampled_from((0, 1, 30)))
    def adapt(self, seed: int, count: int) -> None:
        self.maker.random = Random(seed)
        made = Made([], [self.maker.event() for _ in range(count)])
        self.index = self.index.copy()
        self.index.adapt(event_arrays(made, made.events))


@pytest.fixture(autouse=True, scope="module")
def wide() -> Any:
    """On so few cells nearly every box is wide: half of the space may be in the lists too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "SCANNED", 0.6)
        yield


TestLifetime = MicsLifetime.TestCase
TestLifetime.settings = short
