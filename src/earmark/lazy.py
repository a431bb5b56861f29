"""Attributes that are computed when they are first read.

    class Segment:
        @lazy_property
        def ends(self) -> I64: ...

In Python 3.11, `functools.cached_property` holds a lock meanwhile, one for all instances of a class: readers of
different books wait for each other, and a child that is forked while another thread is inside waits forever. Here there
is no lock. Several threads may compute a value at the same time, and all of them get the one that was stored first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801
    """A property whose value is kept in the instance's `__dict__`, where it may also be set or deleted."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> T: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> lazy_property[T] | T:
        if instance is None:
            return self
        value: T = instance.__dict__.setdefault(self._name, self._compute(instance))
        return value
