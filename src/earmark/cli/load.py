"""Subscriptions from a file, from standard input or from a saved folder, and how long that took."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from earmark.cli.reading import Reading
from earmark.errors import EarmarkError
from earmark.matcher import DEFAULT_INDEX, Matcher
from earmark.tabular.subscriptions import read_subscriptions


class Loaded(NamedTuple):
    """A matcher, and the seconds it took to load."""

    matcher: Matcher
    seconds: float


def load(path: str, reading: Reading) -> Loaded:
    """The matcher of a file of subscriptions or of a saved folder."""
    begun = time.perf_counter()
    matcher = _from_folder(path, reading) if os.path.isdir(path) else _from_file(path, reading)
    return Loaded(matcher, time.perf_counter() - begun)


def _from_folder(path: str, reading: Reading) -> Matcher:
    if reading.attributes or reading.zone:
        raise EarmarkError("a saved folder knows its types and its zone: --attribute and --zone are for files")
    return Matcher.load(path, index=reading.index)


def _from_file(path: str, reading: Reading) -> Matcher:
    source = reading.source(path)
    matcher = Matcher(reading.index or DEFAULT_INDEX, attributes=reading.attributes, zone=reading.zone or "UTC")
    file = read_subscriptions(source, reading.attributes)
    try:
        matcher.add_many(file.rows)
    except EarmarkError as problem:
        raise file.located(problem) from None
    return matcher
