"""Subscriptions from a file, from standard input or from a saved folder, and how long it took to load them."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from earmark.cli.reading import Reading
from earmark.errors import EarmarkError
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.tabular.subscriptions import read_subscriptions

ALONE = "condition"
"""The id of a subscription that is given as a condition alone."""


class TimedMatcher(NamedTuple):
    """A matcher, and the seconds it took to load."""

    matcher: Matcher
    seconds: float


def load(path: str | None, reading: Reading, condition: str = "") -> TimedMatcher:
    """Load the subscriptions of a file or of a saved folder; without a path, one subscription of this condition."""
    begun = time.perf_counter()
    if path is not None and os.path.isdir(path):
        if reading.attributes or reading.zone:
            raise EarmarkError("a saved folder has its own types and zone: --attribute and --zone are for files")
        return TimedMatcher(Matcher.load(path, index=reading.index), time.perf_counter() - begun)
    matcher = Matcher(reading.index or DEFAULT_INDEX, attributes=reading.attributes, zone=reading.zone or "UTC")
    if path is None:
        matcher.add(ALONE, condition)
    else:
        file = read_subscriptions(reading.source(path), reading.attributes)
        try:
            matcher.add_many(file.rows)
        except EarmarkError as problem:
            raise file.located(problem) from None
    return TimedMatcher(matcher, time.perf_counter() - begun)
