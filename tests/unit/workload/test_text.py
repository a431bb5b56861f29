"""Workloads made from text: sizes as in Table III, deterministic, right windows, many attributes."""

from __future__ import annotations

import numpy as np
import pytest

from earmark.errors import EarmarkError
from earmark.workload.begen import Setting, matching_probability
from earmark.workload.standard import UNUSED, Workload
from earmark.workload.text import (
    CARDINALITY,
    DIMENSIONS,
    Text,
    from_strings,
    sparse_words,
    standard_library,
    strings,
    text_of,
    with_probability,
)


@pytest.fixture(scope="module")
def text() -> Text:
    return standard_library(30)


def sizes(attr: np.ndarray) -> float:
    return float((attr != UNUSED).sum(axis=1).mean())


def encoded(letters: str) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + ord(letter) - ord("a")
    return number


def test_words_and_windows() -> None:
    text = text_of(b"Guido van2Rossum; x guido " + b"y" * 30)
    assert text.number.tolist() == [0, 2, 1, 0]
    assert bytes(text.letter[text.start[1] : text.start[2]] + ord("a")) == b"van"
    assert text.describe().startswith("4 words, 3 distinct, sha256 ")
    drawn = strings(text, "author", 4, np.random.default_rng(1))
    attr, value = drawn.rows(np.arange(4))
    letters = {
        "guidoguido": 5,
        "guidorossum": 7,
        "rossumguido": 7,
        "rossumrossum": 6,
    }  # distinct pairs that have a value
    assert sorted((attr != UNUSED).sum(axis=1).tolist()) == sorted(letters.values())
    assert (value < CARDINALITY).all()


def test_a_title_becomes_windows_of_five_letters_and_the_first_value_of_an_attribute_counts() -> None:
    words = [b"abcde", b"abxyz", *[b"qq"] * 10]
    text = text_of(b" ".join(words))
    drawn = strings(text, "title", 1, np.random.default_rng(0))._replace(begin=np.array([0]), end=np.array([6]))
    attr, value = drawn.rows(np.arange(1))
    found = dict(zip(attr[0].tolist(), value[0].tolist(), strict=True))
    wanted = {"ab": "cde", "bc": "dea", "cd": "eab", "de": "abx", "ea": "bxy"}
    assert found == {encoded(pair): encoded(rest) for pair, rest in wanted.items()}


@pytest.mark.parametrize(("kind", "size"), [("author", 8), ("title", 35)])
def test_sizes_are_those_of_table_3(text: Text, kind: str, size: int) -> None:
    workload = from_strings(text, kind, 400, 40, seed=3)
    assert (workload.attributes, workload.domain) == (DIMENSIONS, CARDINALITY)
    assert abs(sizes(workload.sub_attr) - size) < 0.2 * size
    assert abs(sizes(workload.event_attr) - size) < 0.2 * size
    assert matching_probability(workload) * 400 > 0.3
    check_rows(workload)
    again = from_strings(text, kind, 400, 40, seed=3)
    assert all(np.array_equal(one, other) for one, other in zip(workload[:5], again[:5], strict=True))


def check_rows(workload: Workload) -> None:
    used = workload.sub_attr != UNUSED
    assert (np.diff(workload.sub_attr, axis=1)[used[:, :-1]] > 0).all()
    assert (workload.sub_lo <= workload.sub_hi).all()
    assert (workload.sub_hi - workload.sub_lo)[used].max() < 12
    assert (workload.sub_weight[used] > 0).all()
    table = workload.table()
    assert len(table.attr) == used.sum() and table.attr.max() < workload.attributes


def test_pairs_of_words_are_attributes(text: Text) -> None:
    workload = sparse_words(text, 500, 40)
    assert workload.attributes > 5_000
    assert abs(sizes(workload.sub_attr) - 8) < 1
    assert abs(sizes(workload.event_attr) - 15) < 2
    assert matching_probability(workload) * 500 > 0.5  # a pair that occurs twice in an event has its first value
    check_rows(workload)


@pytest.mark.parametrize(("kind", "size", "event_size"), [("author", 8, 16), ("title", 30, 43)])
def test_a_matching_probability_is_met(text: Text, kind: str, size: int, event_size: int) -> None:
    setting = Setting(
        subscriptions=1_000, events=40, dimensions=DIMENSIONS, cardinality=CARDINALITY, subscription_size=size,
        event_size=event_size, match_probability=0.05,
    )  # fmt: skip
    workload = with_probability(text, kind, setting)
    assert abs(matching_probability(workload) - 0.05) < 0.01
    assert abs(sizes(workload.sub_attr) - size) < 1 and abs(sizes(workload.event_attr) - event_size) < 2
    with pytest.raises(EarmarkError, match="677 dimensions"):
        with_probability(text, kind, Setting())


def test_what_cannot_be_drawn_is_refused(text: Text) -> None:
    with pytest.raises(EarmarkError, match="a kind of string"):
        from_strings(text, "poem", 10, 10)
    with pytest.raises(EarmarkError, match="words in it"):
        text_of(b"1 2 3")
    with pytest.raises(EarmarkError, match="too few for 10 names"):
        strings(text_of(b"only these words"), "author", 10, np.random.default_rng(1))
    with pytest.raises(EarmarkError, match="more than 11 words"):
        strings(text_of(b"only these words"), "title", 10, np.random.default_rng(1))
