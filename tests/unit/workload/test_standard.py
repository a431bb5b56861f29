"""The standard workloads are what they always were, whole and as prefixes."""

from __future__ import annotations

import hashlib
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.workload.standard import CHUNK, WORKLOADS, Workload

WHOLE = {
    "w1": "2dff9f7899fef02f5cd3934bbd043f967a416de1fd6a031da811df266736a6c3",
    "w1u": "3f4f540bed1ae57dc59787b135581fc5bd7be038b1bf01cd9cb1b1fa7003ef61",
    "w1z": "4493c1a8ebad71e07535ca275fc7e7446239292edeb0c8143d84945378a16228",
    "w2": "088454af56c335f20f23e4ca3cef27db279f5f78ac93eb79aef76f2f90447ebb",
}
FIRST_10K = {
    "w1": "443e05c7a28eb0020e2d5f4d123166a8666e8a079de3c1818412b6f95485827c",
    "w1u": "e4a6922953f6d1eee96c80bca69c399673aa6866c05495668fa912187d0e05d5",
    "w1z": "505deb717f4eb2c274943bb816d7033bba21e20576c898a6b0b602d03aec96db",
    "w2": "c3f6a1d4053e17ee56bccb4e6f0c5bc647ed715a1a754b8108094653cc3020ec",
}
ORIGINAL = Path(__file__).parents[4] / "shared/workloads/standard.py"
NAMES = pytest.mark.parametrize("name", list(WHOLE))
needs_original = pytest.mark.skipif(not ORIGINAL.exists(), reason="the original generators are not beside the checkout")


def checksum(workload: Workload) -> str:
    digest = hashlib.sha256()
    for column in workload[:5]:
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


@cache
def original() -> ModuleType:
    spec = importlib.util.spec_from_file_location("original", ORIGINAL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def first_10k(name: str) -> Workload:
    return WORKLOADS[name](subscriptions=10_000)


def assert_equal(ours: Workload, theirs: tuple[object, ...]) -> None:
    assert not len(ours.sub_weight)
    for a, b in zip(ours[:7], theirs[:7], strict=True):
        assert np.array_equal(np.asarray(a), np.asarray(b))
        assert np.asarray(a).dtype == np.asarray(b).dtype


def test_every_workload_is_pinned() -> None:
    assert set(WORKLOADS) == set(WHOLE) == set(FIRST_10K)


@NAMES
def test_the_events_and_the_first_subscriptions(name: str) -> None:
    made = first_10k(name)
    assert checksum(made) == FIRST_10K[name]
    assert (np.diff(made.sub_attr, axis=1) > 0).all()
    assert (np.diff(made.event_attr, axis=1) > 0).all()
    table, events = made.head(1000).table(), made.events()
    assert table.clause_start[-1] == 1000
    assert (table.lo.reshape(1000, -1) == made.sub_lo[:1000]).all()
    assert (events.lo.reshape(made.event_value.shape) == made.event_value).all()


@needs_original
def test_equal_to_the_original_where_that_is_quick() -> None:
    assert_equal(WORKLOADS["w2"](), original().MAKE["w2"]())


@pytest.mark.slow
@NAMES
def test_checksum_of_the_whole(name: str) -> None:
    whole = WORKLOADS[name]()
    assert checksum(whole) == WHOLE[name]
    assert checksum(whole.head(10_000)) == FIRST_10K[name]
    uneven = 2 * CHUNK + 77
    assert_equal(WORKLOADS[name](subscriptions=uneven), whole.head(uneven))


@pytest.mark.slow
@needs_original
@pytest.mark.parametrize("name", ["w1", "w1u", "w1z"])
def test_equal_to_the_original(name: str) -> None:
    assert_equal(WORKLOADS[name](), original().MAKE[name]())


@pytest.mark.parametrize("subscriptions", [0, -1, 1_000_001])
@NAMES
def test_a_size_that_no_workload_has(name: str, subscriptions: int) -> None:
    with pytest.raises(EarmarkError, match="1 to 1,000,000 subscriptions"):
        WORKLOADS[name](subscriptions=subscriptions)


@pytest.mark.parametrize("name", ["w1u", "w1z"])
def test_every_second_event_matches_something(name: str) -> None:
    made = first_10k(name)
    value = np.full(made.attributes, -1, np.int64)
    for event in range(0, 40, 2):
        value[:] = -1
        value[made.event_attr[event]] = made.event_value[event]
        given = value[made.sub_attr]
        assert ((made.sub_lo <= given) & (given <= made.sub_hi)).all(axis=1).any()
