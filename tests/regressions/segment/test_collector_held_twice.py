"""The inner of two uses of `collector_held` turned the garbage collector on while the outer one still held it back."""

from __future__ import annotations

import gc

import pytest

from earmark.segment.builder import collector_held


def test_the_last_use_to_end_turns_it_on() -> None:
    assert gc.isenabled()
    with collector_held():
        with collector_held():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_for_a_caller_who_turned_it_off() -> None:
    gc.disable()
    try:
        with collector_held(), collector_held():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_error_turns_it_on() -> None:
    with pytest.raises(KeyboardInterrupt), collector_held(), collector_held():
        raise KeyboardInterrupt
    assert gc.isenabled()
