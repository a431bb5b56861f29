"""Match streams of events against millions of standing subscriptions: all that match, or the k best.

>>> import earmark
>>> m = earmark.Matcher()
>>> m.add("ad-17", "credit_score > 650 AND age BETWEEN 22 AND 36")
>>> m.match({"credit_score": 732, "age": 27})
['ad-17']

Names load when first used, so that importing the package is quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from earmark.book.history import Change, Difference, Revision
    from earmark.durable import Book, open
    from earmark.engine.searcher import Mode
    from earmark.engine.stats import AttributeInfo, Stats, Unseen
    from earmark.engine.verify import Verification
    from earmark.errors import (
        AttributeTypeError,
        EarmarkError,
        EventError,
        SubscriptionError,
        TableError,
        TooManyAnswers,
    )
    from earmark.events.mappings import Interval, Reject
    from earmark.index.auto.facts import Facts
    from earmark.index.auto.plan import Candidate, Plan, Plans
    from earmark.index.contract import MicsAdaptation, TreeAdaptation, Work
    from earmark.language.parse import parse
    from earmark.language.predicate import Condition, Predicate
    from earmark.matcher import Matcher
    from earmark.reader import Match
    from earmark.segment.builder import Subscription
    from earmark.segment.explain import ClauseExplanation, ConstraintExplanation, Explanation, NearMiss
    from earmark.segment.validate import Problem, validate
    from earmark.warming import warm

__version__ = "0.1.0"

_HOMES = {
    "AttributeTypeError": "errors",
    "EarmarkError": "errors",
    "EventError": "errors",
    "SubscriptionError": "errors",
    "TableError": "errors",
    "TooManyAnswers": "errors",
    "Book": "durable",
    "open": "durable",
    "Change": "book.history",
    "Difference": "book.history",
    "Revision": "book.history",
    "AttributeInfo": "engine.stats",
    "Stats": "engine.stats",
    "Facts": "index.auto.facts",
    "Candidate": "index.auto.plan",
    "Plan": "index.auto.plan",
    "Plans": "index.auto.plan",
    "MicsAdaptation": "index.contract",
    "TreeAdaptation": "index.contract",
    "Work": "index.contract",
    "Mode": "engine.searcher",
    "Match": "reader",
    "Matcher": "matcher",
    "Verification": "engine.verify",
    "Interval": "events.mappings",
    "Reject": "events.mappings",
    "Unseen": "engine.stats",
    "ClauseExplanation": "segment.explain",
    "ConstraintExplanation": "segment.explain",
    "Explanation": "segment.explain",
    "NearMiss": "segment.explain",
    "parse": "language.parse",
    "Condition": "language.predicate",
    "Predicate": "language.predicate",
    "Subscription": "segment.builder",
    "Problem": "segment.validate",
    "validate": "segment.validate",
    "warm": "warming",
}

__all__ = [
    "AttributeInfo",
    "AttributeTypeError",
    "Book",
    "Candidate",
    "Change",
    "ClauseExplanation",
    "Condition",
    "ConstraintExplanation",
    "Difference",
    "EarmarkError",
    "EventError",
    "Explanation",
    "Facts",
    "Interval",
    "Match",
    "Matcher",
    "MicsAdaptation",
    "Mode",
    "NearMiss",
    "Plan",
    "Plans",
    "Predicate",
    "Problem",
    "Reject",
    "Revision",
    "Stats",
    "Subscription",
    "SubscriptionError",
    "TableError",
    "TooManyAnswers",
    "TreeAdaptation",
    "Unseen",
    "Verification",
    "Work",
    "open",
    "parse",
    "validate",
    "warm",
]


if not TYPE_CHECKING:  # a type checker that saw __getattr__ would take any name

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module 'earmark' has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"earmark.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
