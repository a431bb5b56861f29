"""What is asked for and what is published: the workloads of both papers, uniform and Zipfian, or anybody's own.

    mics-uniform, mics-zipf     mics.txt, section 7: 256 cells per attribute, ranges of 4 cells, 2 to 4 attributes
    shen-uniform, shen-zipf     shen-covering.txt, V-A: rectangles between two random points, 3 to 8 attributes, and a
                                stream in which a command withdraws with probability p, each living one as likely

The first is `earmark.workload.mics`. The second differs from the paper where it says nothing: a domain of 2^20 values,
events (points, drawn as the ends are), and the Zipfian variant, whose ends are in cells drawn as those of MICS are.
Where all ranges have one size, one subscription covers another only if they are equal, and covering is as weak as it
can be; between random points it is strong on few attributes, and weak on many: one rectangle covers another with
probability (1/6) ** attributes.

**Invariant**: the same name, numbers and seed give the same content, on every machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from earmark.errors import EarmarkError
from earmark.events.mappings import Interval
from earmark.language.predicate import literal_sql, name_sql
from earmark.matcher import Matcher
from earmark.workload.blocks import conditions
from earmark.workload.mics import CELLS, DISTRIBUTIONS, SIZE, mics
from earmark.workload.standard import Workload, dense

GRAIN = 4_096
"""Values per cell of Shen's rectangles: 256 cells of them are 2^20 values."""
CONTENTS = tuple(f"{paper}-{distribution}" for paper in ("mics", "shen") for distribution in DISTRIBUTIONS)
MOST_SUBSCRIPTIONS, MOST_PUBLICATIONS, MOST_ATTRIBUTES = 1_000_000, 1_000_000, 64
ATTRIBUTES = 3


@dataclass(frozen=True)
class Content:
    """Subscriptions, in the order of commands that add and withdraw them, and events."""

    name: str
    conditions: Sequence[str]
    commands: Sequence[int]
    """Places in `conditions`; ~place withdraws what was added before."""
    events: Sequence[Mapping[str, Any]]
    bounds: Mapping[str, tuple[int, int]] | None = None
    """The least and the greatest value of each attribute, where they are known."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Types of attributes, which all brokers declare."""


def content_of(
    name: str,
    subscriptions: int,
    publications: int,
    *,
    attributes: int = ATTRIBUTES,
    size: int = SIZE,
    unsubscribes: float = 0.0,
    seed: int = 1,
) -> Content:
    """Draw one of CONTENTS. `size` is that of MICS's ranges, in cells; `unsubscribes` is p, from 0 to below 0.5."""
    if name not in CONTENTS:
        raise EarmarkError(f"expected a workload, one of {', '.join(CONTENTS)}, got {name!r}")
    for what, value, most in (
        ("subscriptions", subscriptions, MOST_SUBSCRIPTIONS),
        ("publications", publications, MOST_PUBLICATIONS),
        ("attributes", attributes, MOST_ATTRIBUTES),
    ):
        if not 1 <= value <= most:
            raise EarmarkError(f"expected 1 to {most:,} {what}, got {value:,}")
    if not 0 <= unsubscribes < 0.5:
        raise EarmarkError(f"expected a share of unsubscribes from 0 to below 0.5, got {unsubscribes}")
    paper, distribution = name.split("-")
    if paper == "mics":
        data = mics(distribution, subscriptions, publications, attributes=attributes, sizes=size, seed=seed)
    else:
        data = _rectangles(distribution, subscriptions, publications, attributes, seed)
    commands = _stream(subscriptions, unsubscribes, Random(f"{seed}/commands"))
    bounds = {f"a{i}": (0, data.domain - 1) for i in range(attributes)}
    return Content(f"{name}, {attributes} attributes", conditions(data).to_pylist(), commands, _events(data), bounds)


def content_of_rows(conditions: Iterable[str], events: Iterable[Mapping[str, Any]], name: str = "given") -> Content:
    """Return content of anybody's own: every condition is subscribed to, in order.

    Brokers declare the types that the conditions together have, so that all of them read events in the same way.
    """
    wanted, published = list(conditions), list(events)
    if not wanted or not published:
        raise EarmarkError(f"expected subscriptions and events, got {len(wanted):,} and {len(published):,}")
    with Matcher("scan") as matcher:
        matcher.add_many(list(enumerate(wanted)), progress=False)
        types = {name: type_ for name, type_ in matcher.stats()["attributes"].items() if type_ is not None}
    return Content(name, wanted, range(len(wanted)), published, types=types)


def offer_of(event: Mapping[str, Any]) -> str:
    """The condition that an event matches, and only those with the same values."""
    return " AND ".join(f"{name_sql(name)} {_is_value(value)}" for name, value in event.items()) or "TRUE"


def _is_value(value: Any) -> str:
    if not isinstance(value, Interval):
        return "IS NULL" if value is None else f"= {literal_sql(value)}"
    low, high = (None if end is None else literal_sql(end) for end in (value.lo, value.hi))
    if low is None or high is None:
        return "IS NOT NULL" if low is high else f">= {low}" if high is None else f"<= {high}"
    return f"BETWEEN {low} AND {high}"


def _rectangles(distribution: str, subscriptions: int, publications: int, attributes: int, seed: int) -> Workload:
    """Draw rectangles between two random points each, and points."""
    points = mics(
        distribution, 1, 2 * subscriptions + publications, attributes=attributes, grain=GRAIN, seed=seed
    ).event_value
    ends = points[: 2 * subscriptions].reshape(subscriptions, 2, attributes)
    return dense(ends.min(axis=1), ends.max(axis=1), points[2 * subscriptions :], CELLS * GRAIN)


def _stream(subscriptions: int, unsubscribes: float, random: Random) -> Sequence[int]:
    """Return all subscriptions in order, with withdrawals of living ones between them."""
    if not unsubscribes:
        return range(subscriptions)
    out: list[int] = []
    living: list[int] = []
    arrived = 0
    while arrived < subscriptions:
        if living and random.random() < unsubscribes:
            place = random.randrange(len(living))
            living[place], living[-1] = living[-1], living[place]
            out.append(~living.pop())
        else:
            living.append(arrived)
            out.append(arrived)
            arrived += 1
    return out


def _events(data: Workload) -> list[dict[str, Any]]:
    names = [f"a{i}" for i in range(data.attributes)]
    return [dict(zip(names, row, strict=True)) for row in data.event_value.tolist()]
