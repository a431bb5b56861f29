"""The model of costs finds the coefficients that samples were made with, and its page says so."""

from __future__ import annotations

from itertools import product

import pytest

import scale_model
from results import Result
from scale_model import TERMS, Growth, Prediction, Sample, fitted, page_of

COSTS = {"route": 0.3, "cover": 0.03, "event": 1.0, "visit": 0.3, "search": 4.0, "match": 0.4}


def made(subscriptions: int, shards: int, k: int | None) -> Sample:
    """What a search costs exactly."""
    met = 0.6 * shards**0.5 if shards > 1 else 1.0
    covers = 0.8 * shards**0.4 * subscriptions**0.2 if shards > 1 else 0.0
    route = COSTS["route"] + COSTS["cover"] * covers if shards > 1 else 0.0
    matches = subscriptions * (2e-5 if k else 4e-5)
    search = COSTS["search"] * met * (subscriptions / shards / 1e6) ** 0.5
    cost = route + COSTS["event"] + COSTS["visit"] * met + search + COSTS["match"] * matches
    return Sample(subscriptions, shards, k, met, covers, route, matches, cost)


def test_the_model() -> None:
    samples = [made(*one) for one in product((50_000, 200_000, 800_000), (1, 4, 16, 64), (10, None))]
    model = fitted(samples)
    assert model.power == 0.5
    assert dict(zip(TERMS, model.costs, strict=True)) == pytest.approx(COSTS, rel=1e-6)
    growth = Growth.of(samples, lambda s: s.covers, by_size=True)
    assert (growth.factor, growth.by_shards, growth.by_subscriptions) == pytest.approx((0.8, 0.4, 0.2))
    share, shards_met = (0.5, 0.1), Growth.of(samples, lambda s: s.met, by_size=False)
    by_term = scale_model.predicted(model, share, shards_met, growth, 10, 400_000_000, 1e-6)
    assert by_term["Spark, matches"] == pytest.approx(1.0)
    page = page_of(Result("scale_model", {}, []), samples, ["said"], [Prediction("all", by_term)], "asked", 1e10)
    assert "| 800,000 | 64 | all |" in page
    assert page.endswith("Spark, an event 0.50, Spark, matches 1.00 |")
