"""The work behind `match`, `top-k` and `explain`: load, search, write, sum up."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from earmark.cli.load import load
from earmark.cli.output import sum_up, write_tables
from earmark.cli.reading import Reading
from earmark.cli.rejects import Rejects
from earmark.cli.search import EventSearch, Search, kinds_of
from earmark.errors import EarmarkError
from earmark.tabular.read import Row
from earmark.tabular.write import check_target, plain_json


def explained(subscriptions: str, id: str, event: Row, as_json: bool, reading: Reading) -> tuple[bool, str]:
    """Whether a subscription matches, and the explanation as text."""
    reading.check(subscriptions)
    # One subscription is evaluated, so no index is built unless asked for.
    matcher = load(subscriptions, replace(reading, index=reading.index or "scan")).matcher
    number = int(id) if re.fullmatch(r"-?\d{1,19}", id) else None
    key: Any = number if id not in matcher and number in matcher else id
    explanation = matcher.explain(key, event)
    text = json.dumps(plain_json(asdict(explanation)), default=str) if as_json else str(explanation)
    return explanation.matched, text


def run(
    search: Search,
    *,
    subscriptions: str,
    events: str,
    output: str | None,
    event_id: str | None,
    as_json: bool,
    reading: Reading,
    rejects: Rejects,
    weights: Iterable[str] = (),
) -> None:
    """Search all events, and write the results to a file or to stdout. `weights` names attributes that must exist."""
    reading.check(subscriptions, events)
    source = reading.source(events)
    if output is not None:
        check_target(output, [subscriptions, events])
    rejects.check([subscriptions, events], output)
    loaded = load(subscriptions, reading)
    for name in weights:
        if name not in kinds_of(loaded.matcher):
            raise EarmarkError(f"--weight names {name!r}, which no subscription uses")
    begun = time.perf_counter()
    searched = EventSearch(loaded.matcher, source, search, event_id, rejects)
    with rejects:
        results = write_tables(searched.results(shown=output is not None or not sys.stdout.isatty()), output, as_json)
    took = time.perf_counter() - begun
    sum_up(searched.events, results, len(loaded.matcher), (loaded.seconds, took), output, as_json, rejects)
