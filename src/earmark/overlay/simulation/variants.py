"""Policies that are worth comparing, by name: each a policy of brokers with options that suit the content.

    flood                  everything is told to everybody
    covering               G_1, a relation graph per link: what one other covers is not told
    covering-poset         the strict poset, and what was told is withdrawn when something wider comes
    covering-calm          G_1 without bursts: what a withdrawal uncovers is told BURST at a time
    subsumption            MICS with Projection: ranges, told as far as they are new
    subsumption-indexing   MICS with Subscription Indexing: conditions, decided exactly
    merging                MICS's perfect merging: ranges that touch are one
    merging-gap            imperfect: gaps of up to GAP cells are closed, and told
    merging-budget         imperfect: gaps that cost at most BUDGET more publications on links

Policies of ranges need one space in all brokers. For the workloads of the papers it has even cells on the first
MOST_AXES attributes, each value its own where there are few; for other content it is learned from the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from earmark.errors import EarmarkError
from earmark.overlay.policies import POLICIES
from earmark.overlay.simulation.content import Content
from earmark.overlay.space import Space

GAP, BUDGET, SAMPLE, BURST = 64, 0.1, 2_000, 8
MOST_AXES = 4
LEARNED = 10_000
"""Conditions from which a space is learned."""

_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "flood": ("flood", {}),
    "covering": ("covering", {}),
    "covering-poset": ("covering", {"graph": "poset", "withdraw": True}),
    "covering-calm": ("covering", {"burst": BURST}),
    "subsumption": ("subsumption", {}),
    "subsumption-indexing": ("subsumption", {"by": "indexing"}),
    "merging": ("merging", {}),
    "merging-gap": ("merging", {"gap": GAP}),
    "merging-budget": ("merging", {"budget": BUDGET}),
}
VARIANTS = tuple(_VARIANTS)


def variant_of(name: str, content: Content, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the policy of a variant and its options, with `options` instead of its own where they are given."""
    if name not in _VARIANTS:
        raise EarmarkError(f"expected a policy, one of {', '.join(VARIANTS)}, got {name!r}")
    policy, own = _VARIANTS[name]
    made = own | dict(options)
    in_ranges = policy == "merging" or (policy == "subsumption" and made.get("by", "projection") == "projection")
    if in_ranges and "space" not in made:
        made["space"] = _space(content)
    if made.get("budget") is not None and "sample" not in made:
        made["sample"] = list(content.events[:SAMPLE])
    return policy, made


def shown_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options in a form that people and JSON read: a space by its number, a sample by its size."""
    out: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Space):
            out[name] = f"{len(value.axes)} axes, {value.bits} bits"
        elif isinstance(value, list | tuple):
            out[name] = f"{len(value):,} events"
        else:
            out[name] = value if isinstance(value, bool | int | float | str | None) else str(value)
    return out


def _space(content: Content) -> Space:
    if content.bounds is None:
        return Space.of([(place, text) for place, text in enumerate(content.conditions[:LEARNED])])
    axes = dict(list(content.bounds.items())[:MOST_AXES])
    widest = max(high - low for low, high in axes.values())
    return Space.even(axes, bits=9 if widest < 511 else 8)


assert {policy for policy, _ in _VARIANTS.values()} == set(POLICIES), "every policy has a variant"
