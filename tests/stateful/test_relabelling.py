"""String keys run out of gaps in the middle of a life: the attribute is relabelled, and every answer stays right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

import pytest

from earmark import Interval, Matcher
from earmark.events.frames import encode_many
from earmark.keys import strings

OPERATORS: dict[str, Callable[[bytes, bytes], bool]] = {
    "s < '{}'": lambda value, constant: value < constant,
    "s <= '{}'": lambda value, constant: value <= constant,
    "s = '{}'": lambda value, constant: value == constant,
    "s != '{}'": lambda value, constant: value != constant,
    "s >= '{}'": lambda value, constant: value >= constant,
    "s > '{}'": lambda value, constant: value > constant,
    "s LIKE '{}%'": lambda value, constant: value.startswith(constant),
    "s NOT LIKE '{}%'": lambda value, constant: not value.startswith(constant),
}


def ascending(rng: Random) -> Iterator[str]:
    return (f"k{i:04}" for i in range(10_000))


def descending(rng: Random) -> Iterator[str]:
    return (f"k{i:04}" for i in range(9_999, -1, -1))


def closing_in(rng: Random) -> Iterator[str]:
    """Always between the last two: the order that uses up a gap fastest."""
    return ("m" + ("ab" * (i // 2))[: i // 2] + "az"[i % 2] for i in range(10_000))


def scattered(rng: Random) -> Iterator[str]:
    return ("".join(rng.choice("ab\U0010ffff") for _ in range(rng.randint(0, 9))) for _ in range(10_000))


@pytest.mark.parametrize("stride", [2, 64, None])
@pytest.mark.parametrize("order", [ascending, descending, closing_in, scattered])
def test_in_mid_life(
    order: Callable[[Random], Iterator[str]], stride: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if stride is not None:
        monkeypatch.setattr(strings, "_STRIDE", stride)
    rng = Random(order.__name__)
    constants = order(rng)
    templates = list(OPERATORS)
    m = Matcher()
    first = m._version.schema.generation
    asked: dict[int, tuple[str, bytes]] = {}
    for step in range(60):
        batch = {}
        for one in range(len(asked), len(asked) + rng.choice((1, 1, 1, 4))):
            batch[one] = (rng.choice(templates), next(constants).encode())
        m.add_many([(one, template.format(constant.decode())) for one, (template, constant) in batch.items()])
        asked |= batch
        if step % 10 == 9:
            m._version.check()
            known = sorted(constant.decode() for _, constant in asked.values())
            for value in [*rng.sample(known, 4), rng.choice(known) + "\0", rng.choice(known)[:-1], "zz"]:
                expected = [one for one, (t, constant) in asked.items() if OPERATORS[t](value.encode(), constant)]
                assert m.match({"s": value}) == expected
    assert m.verify([{"s": Interval(a, b)} for a, b in zip(known, known[3:], strict=False)][:10]).ok
    if stride == 2 and order in (closing_in, scattered):  # runs have room, whatever the stride
        assert m._version.schema.generation > first, "no relabelling happened"


def test_generations_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event encoded before a relabelling is matched against the table of that time."""
    monkeypatch.setattr(strings, "_STRIDE", 2)
    m = Matcher()
    m.add(0, "s = 'm'")
    m.add(1, "s > 'm' AND s < 'n'")
    (one_segment,) = m._version.segments
    events = encode_many(m._version.whole.schema, [{"s": "mm"}, {"s": "m"}])
    before = m._version.schema.generation
    one = 2
    while m._version.schema.generation == before:
        m.add(one, f"s = 'm{'a' * (100 - one)}'")
        one += 1
    starts, slots = one_segment.match_many(events, one_segment.alive)
    assert [slots[a:b].tolist() for a, b in pairwise(starts)] == [[1], [0]]
    assert m.match({"s": "mm"}) == [1]
    assert m.match({"s": "m" + "a" * 98}) == [1, 2]
