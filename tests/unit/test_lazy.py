"""Attributes that are computed when they are first read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from earmark.lazy import lazy_property


class Circle:
    def __init__(self, threads: int = 1) -> None:
        self.computed = 0
        self._together = Barrier(threads)

    @lazy_property
    def points(self) -> list[int]:
        """A new list each time it is computed."""
        self._together.wait(10)
        self.computed += 1
        return [self.computed]


def test_a_value_is_computed_once_and_kept() -> None:
    one = Circle()
    assert one.points is one.points
    assert one.computed == 1
    del one.points  # type: ignore[misc]
    assert one.points == [2]


def test_a_value_can_be_set() -> None:
    one = Circle()
    one.__dict__["points"] = [7]
    assert one.points == [7]
    assert one.computed == 0


def test_threads_that_compute_at_the_same_time_get_the_same_object() -> None:
    one = Circle(threads=2)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: one.points, range(2))
    assert one.computed == 2
    assert first is second is one.points


def test_the_class_has_the_property() -> None:
    assert Circle.points.__doc__ == "A new list each time it is computed."
