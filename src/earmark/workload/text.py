"""Boolean expressions made from text, in the manner of the DBLP workloads of the BE*-Tree paper (Table III).

**The text** is the Python standard library: the `.py` files of the interpreter that runs, without its tests and
packages, in the order of their paths. Every Python ships it (so does Debian's `libpython3-stdlib`), it is 11 MB of
code, comments and documentation, and what it says is not random. Words are runs of 2 to 20 letters, in lower case:
about 1.1 million, 21,000 of them distinct. Other versions of Python have another text; `Text.describe` says which one
it was, and the same text gives the same workload.

**Strings** stand for the authors and titles of DBLP:

    author    two words of 4 letters or more, each drawn by its frequency in the text; all names are distinct
    title     8 to 11 consecutive words of the text, from a random place

**Encoding.** Table III has 677 attributes of 26³ values, which are a pair of letters (and one more) and three letters;
subscriptions have 8 predicates for a name and 35 for a title. Sliding a window of five letters over a string does
that: the first two letters are the attribute, the other three the value. Where an attribute returns in the same string,
its first value counts.

    "guido van …"  ->  guidovan…  ->  gu: ido   ui: dov   id: ova   do: van  …

A subscription asks for ranges of 1 to `range_size` values around its own; an event is a string of the same kind. Half
of the events are strings of subscriptions, so that something matches.

**Words as attributes** (`sparse_words`). The same window over words: two consecutive words are the attribute, the next
one is the value. That gives 300,000 attributes, of which a subscription has 8 and an event 15: most are used by a few
subscriptions only.

**Matching probabilities** (`with_probability`). The last two columns of Table III have four clusters of values, so
their values are not those of the text. `TextGenerator` is BEGen (`begen.py`) with one change: attributes that occur
together are those of consecutive windows of a string.
"""

from __future__ import annotations

import hashlib
import re
import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from earmark.flat.arrays import F64, I32, I64, pointers_of
from earmark.workload.begen import (
    GREATEST,
    LEAST,
    WEIGHTS,
    Generator,
    Setting,
    drawn_weights,
    rarities,
    sorted_rows,
)
from earmark.workload.standard import UNUSED, Random, Workload, check

WORD = re.compile(rb"(?<![A-Za-z])[A-Za-z]{2,20}(?![A-Za-z])")
LONGEST = 20
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idlelib", "lib2to3", "turtledemo", "__pycache__"}
"""Folders that some distributions of Python leave out, or that are no part of it."""
LETTERS = 26
PAIR, VALUE = 2, 3
"""Letters of an attribute and of a value."""
DIMENSIONS, CARDINALITY = LETTERS**PAIR + 1, LETTERS**VALUE
TITLE_WORDS = (8, 11)
NAME_LETTERS = 4
"""Fewest letters of a word in a name."""
SPARSE_WORDS, SPARSE_EVENT_WORDS = 8, 15
"""Windows of a subscription and of an event when words are attributes."""
KINDS = ("author", "title")
CHUNK = 50_000


class Text(NamedTuple):
    """A text as words: the letters of all words, 0 to 25, one word after the other, and the number of each word.

    `letter[start[w] : start[w + 1]]` are the letters of word w of the text; equal words have equal numbers, and
    numbers are in alphabetical order.
    """

    letter: NDArray[np.uint8]
    start: I64
    number: I32
    digest: str

    @property
    def words(self) -> int:
        """Words in the text."""
        return len(self.number)

    @property
    def distinct(self) -> int:
        """Distinct words."""
        return int(self.number.max(initial=-1)) + 1

    def describe(self) -> str:
        """Return which text it is: its size, and the first digits of a checksum of its words."""
        return f"{self.words:,} words, {self.distinct:,} distinct, sha256 {self.digest[:12]}"


class Strings(NamedTuple):
    """Strings of windows: string i has the windows begin[i] to end[i] - 1 of a stream of attributes and values."""

    attr: I32
    value: I64
    begin: I64
    end: I64
    dimensions: int
    cardinality: int

    def rows(self, which: I64) -> tuple[I32, I64]:
        """Return attributes and values of these strings, one row each; unused places come first."""
        widest = int((self.end - self.begin).max(initial=0))
        parts = [self._some(which[first : first + CHUNK], widest) for first in range(0, len(which), CHUNK)]
        attr, value = (np.concatenate(column) for column in zip(*parts, strict=True))
        empty = int((attr == UNUSED).all(axis=0).sum())
        return attr[:, empty:], value[:, empty:]

    def _some(self, which: I64, widest: int) -> tuple[I32, I64]:
        place = self.begin[which, None] + np.arange(widest)
        inside = place < self.end[which, None]
        place[~inside] = 0
        attr = np.where(inside, self.attr[place], UNUSED).astype(np.int32)
        order = np.argsort(attr, axis=1, kind="stable")
        attr = np.take_along_axis(attr, order, 1)
        attr[:, 1:][attr[:, 1:] == attr[:, :-1]] = UNUSED
        value = np.take_along_axis(self.value[place], order, 1)
        attr, value = sorted_rows(attr, value)
        return attr, value


# --- text -----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=2)
def standard_library(files: int | None = None) -> Text:
    """Read the standard library of this Python; `files` limits it to its first files, for tests."""
    root = Path(sysconfig.get_path("stdlib"))
    every = sorted(path.relative_to(root) for path in root.rglob("*.py"))
    kept = [path for path in every if not SKIPPED & set(path.parts)]
    check(kept, f"expected the source files of Python's standard library in {root}, found none")
    return text_of(b"\n".join((root / path).read_bytes() for path in kept[:files]))


def text_of(data: bytes) -> Text:
    """Return the words of a text."""
    words = [word.lower() for word in WORD.findall(data)]
    check(words, "expected a text with words in it")
    _, number = np.unique(np.array(words, f"S{LONGEST}"), return_inverse=True)
    joined = b"".join(words)
    letter = np.frombuffer(joined, np.uint8) - np.uint8(ord("a"))
    start = pointers_of(np.array([len(word) for word in words]))
    return Text(letter, start, number.astype(np.int32), hashlib.sha256(b" ".join(words)).hexdigest())


def strings(text: Text, kind: str, count: int, random: Random) -> Strings:
    """Draw strings of a kind, "author" or "title", as windows of letters."""
    check(kind in KINDS, f"expected a kind of string, {' or '.join(KINDS)}, got {kind!r}")
    if kind == "author":
        letter, begin, end = _names(text, count, random)
    else:
        words = random.integers(TITLE_WORDS[0], TITLE_WORDS[1] + 1, size=count)
        check(text.words > TITLE_WORDS[1], f"expected a text of more than {TITLE_WORDS[1]} words, got {text.words}")
        first = random.integers(0, text.words - words + 1)
        letter, begin, end = text.letter, text.start[first], text.start[first + words]
    attr, value = _windows(letter)
    return Strings(attr, value, begin, np.maximum(end - PAIR - VALUE + 1, begin), DIMENSIONS, CARDINALITY)


def _windows(letter: NDArray[np.uint8]) -> tuple[I32, I64]:
    """Return the attribute and the value of the window that begins at each letter."""
    digit = np.concatenate([letter, np.zeros(PAIR + VALUE - 1, np.uint8)]).astype(np.int64)
    size = len(letter)
    attr = digit[:size] * LETTERS + digit[1 : size + 1]
    value = (digit[2 : size + 2] * LETTERS + digit[3 : size + 3]) * LETTERS + digit[4 : size + 4]
    return attr.astype(np.int32), value


def _names(text: Text, count: int, random: Random) -> tuple[NDArray[np.uint8], I64, I64]:
    """Draw distinct names of two words; return their letters, and where each name begins and ends."""
    length = np.diff(text.start)
    suitable = np.flatnonzero(length >= NAME_LETTERS)
    check(len(suitable), f"expected a text with words of {NAME_LETTERS} letters or more")
    names = np.empty((0, 2), np.int64)
    for _ in range(64):
        names = np.concatenate([names, suitable[random.integers(0, len(suitable), size=(2 * count + 1_000, 2))]])
        _, first = np.unique(text.number[names].astype(np.int64) @ [text.distinct, 1], return_index=True)
        names = names[np.sort(first)]
        if len(names) >= count:
            break
    check(len(names) >= count, f"the text has {text.distinct:,} words, too few for {count:,} names")
    words = names[:count].ravel()
    size = length[words]
    place = np.repeat(text.start[words] - np.cumsum(size) + size, size) + np.arange(size.sum())
    begin = pointers_of(size.reshape(-1, 2).sum(axis=1))
    return text.letter[place], begin[:-1], begin[1:]


# --- workloads ------------------------------------------------------------------------------------------------------


def from_strings(
    text: Text,
    kind: str,
    subscriptions: int,
    events: int,
    range_size: int = 12,
    weights: str = "clipped",
    seed: int = 1,
) -> Workload:
    """Draw the DBLP columns of Table III: a name or a title for each subscription and each event."""
    random = np.random.default_rng(seed)
    drawn = strings(text, kind, subscriptions + events, random)
    which = np.arange(subscriptions + events)
    known = random.integers(0, subscriptions, size=events)
    asked = np.where(random.random(events) < 0.5, known, which[subscriptions:])
    return _workload(drawn, which[:subscriptions], drawn, asked, range_size, weights, random)


def sparse_words(
    text: Text, subscriptions: int, events: int, range_size: int = 12, weights: str = "clipped", seed: int = 1
) -> Workload:
    """Draw subscriptions whose attributes are pairs of words: hundreds of thousands of attributes, few in each."""
    check(text.words > 2 * SPARSE_EVENT_WORDS, f"expected a text of more words, got {text.words}")
    random = np.random.default_rng(seed)
    number = text.number.astype(np.int64)
    pair, attr = np.unique(number[:-2] * text.distinct + number[1:-1], return_inverse=True)
    windows = len(attr)
    first = random.integers(0, windows - SPARSE_WORDS + 1, size=subscriptions)
    asked = first[random.integers(0, subscriptions, size=events)]
    earlier = random.integers(0, SPARSE_EVENT_WORDS - SPARSE_WORDS + 1, size=events)
    begin = np.clip(asked - earlier, 0, windows - SPARSE_EVENT_WORDS)
    stream = attr.astype(np.int32), number[2:]
    wanted = Strings(*stream, first, first + SPARSE_WORDS, len(pair), text.distinct)
    seen = Strings(*stream, begin, begin + SPARSE_EVENT_WORDS, len(pair), text.distinct)
    return _workload(wanted, np.arange(subscriptions), seen, np.arange(events), range_size, weights, random)


def _workload(
    wanted: Strings, subscriptions: I64, seen: Strings, events: I64, range_size: int, weights: str, random: Random
) -> Workload:
    """Make a workload of strings: ranges around the values of some, the values of others as events."""
    check(weights in WEIGHTS, f"weights must be one of {', '.join(WEIGHTS)}, got {weights!r}")
    check(range_size >= 1, f"range_size must be at least 1, got {range_size}")
    attr, value = wanted.rows(subscriptions)
    used = attr != UNUSED
    width = random.integers(1, range_size + 1, size=attr.shape)
    lo = value - random.integers(0, width)
    hi = lo + width - 1
    lo, hi = np.maximum(lo, 0), np.minimum(hi, wanted.cardinality - 1)
    event_attr, event_value = seen.rows(events)
    weight: F64 = drawn_weights(random, weights, attr, rarities(attr, wanted.dimensions))
    return Workload(
        attr,
        np.where(used, lo, LEAST),
        np.where(used, hi, GREATEST),
        event_attr,
        np.where(event_attr == UNUSED, LEAST, event_value),
        wanted.dimensions,
        wanted.cardinality,
        weight,
    )


def with_probability(text: Text, kind: str, setting: Setting) -> Workload:
    """Draw the columns of Table III with a matching probability: attributes from strings, values from clusters.

    The setting's dimensions and cardinality must be DIMENSIONS and CARDINALITY.
    """
    fits = (setting.dimensions, setting.cardinality) == (DIMENSIONS, CARDINALITY)
    check(fits, f"expected {DIMENSIONS} dimensions and a cardinality of {CARDINALITY:,}")
    return TextGenerator(setting, text, kind).workload()


class TextGenerator(Generator):
    """BEGen with attributes that occur together in strings of a text."""

    NAMES = 20_000

    def __init__(self, setting: Setting, text: Text, kind: str) -> None:
        count = min(self.NAMES, text.distinct**2 // 16)
        drawn = strings(text, kind, count, np.random.default_rng([setting.seed, KINDS.index(kind)]))
        self._stream = drawn.attr
        super().__init__(setting)

    def _attributes(self, size: I64, widest: int | None = None, taken: I32 | None = None) -> I32:
        """Draw `size` different attributes for each row, those of consecutive windows from a random place on."""
        widest = int(size.max(initial=0)) if widest is None else widest
        reach = 5 * widest + 20
        rows = [np.empty((0, widest), np.int32)]
        for begin in range(0, len(size), CHUNK):
            sizes = size[begin : begin + CHUNK, None]
            first = self.random.integers(0, max(1, len(self._stream) - reach), size=len(sizes))
            attr = self._stream[(first[:, None] + np.arange(reach)) % len(self._stream)]
            fresh = _first_of_each(attr)
            if taken is not None:
                known = taken[begin : begin + CHUNK]
                for place in range(known.shape[1]):
                    fresh &= attr != known[:, place, None]
            fresh &= np.cumsum(fresh, axis=1) <= sizes
            rows.append(_left_aligned(attr, fresh, widest))
        return np.concatenate(rows)


def _first_of_each(attr: I32) -> NDArray[np.bool_]:
    """Return where each row has a number for the first time."""
    order = np.argsort(attr, axis=1, kind="stable")
    ordered = np.take_along_axis(attr, order, 1)
    fresh = np.ones(attr.shape, bool)
    fresh[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    placed: NDArray[Any] = np.empty_like(fresh)
    np.put_along_axis(placed, order, fresh, 1)
    return placed


def _left_aligned(attr: I32, kept: NDArray[np.bool_], widest: int) -> I32:
    """Return the kept numbers of each row at its beginning, UNUSED after them."""
    rows = np.full((len(attr), widest), UNUSED, np.int32)
    row, column = np.nonzero(kept)
    rows[row, np.cumsum(kept, axis=1)[row, column] - 1] = attr[row, column]
    return rows
