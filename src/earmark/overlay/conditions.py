"""Whether a condition that somebody wants is well formed, and how much work it may be.

A simulated network passes one condition on from broker to broker, so what one of them has found sound is remembered for
all brokers of the process: conditions that only join comparisons of numbers with their bounds (segment/shared.py),
others here.
"""

from __future__ import annotations

from earmark.errors import EarmarkError
from earmark.language.parse import parse_clauses
from earmark.segment.shared import bounds_of

MOST_SOUND, LONGEST_SOUND = 1 << 16, 1_000
MOST_WORK = 2_048
"""Constraints in the normal form of one condition: comparing it with others takes up to a second, and grows with the
square."""
_sound: set[str] = set()
"""Conditions without bounds that are well formed, and not too much work."""


def check_condition(condition: str) -> None:
    """Raise an EarmarkError where a condition is not well formed, or takes a broker too long."""
    if condition in _sound or bounds_of(condition) is not None:
        return
    parse_clauses(condition)
    check_work(condition)
    if len(condition) <= LONGEST_SOUND:
        if len(_sound) >= MOST_SOUND:
            _sound.clear()
        _sound.add(condition)


def is_plain(condition: str) -> bool:
    """Whether the normal form of a condition is short without looking at it: it only joins comparisons by AND."""
    lowered = condition.lower()
    return len(condition) <= LONGEST_SOUND and "or" not in lowered and "not" not in lowered


def work_of(condition: str) -> int:
    """How many constraints the normal form of a condition has, at least 1; raise an EarmarkError where it is wrong."""
    return max(1, sum(map(len, parse_clauses(condition))))


def check_work(condition: str) -> None:
    """Raise an EarmarkError where a condition takes a broker too long."""
    if is_plain(condition):
        return
    if (work := work_of(condition)) > MOST_WORK:
        raise EarmarkError(
            f"expected a condition whose normal form has at most {MOST_WORK:,} constraints, got {work:,}: "
            "split it into several subscriptions"
        )
