"""A DataFrame of subscriptions as one table that workers map, without publishing it: what hygiene starts from.

    DataFrame ──parsed by the executors──► parts ──► one table in the order of insertion ──► a working folder

The same as `publish` (types, string keys, the order, rejected rows), but no version, no index, and nothing that lasts:
the working folder belongs to one call. As with snapshots, the driver holds whole columns and no Python object for each
subscription, and the folder must be visible to the driver and to all workers under the same path.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.model.attribute import Attribute, Schema
from earmark.model.files import save_stored
from earmark.model.stored import Stored
from earmark.spark import frames
from earmark.spark.merge import join, pick, take_constants
from earmark.spark.parts import GIVEN_TWICE
from earmark.spark.publish import (
    Taken,
    check_on_error,
    in_order,
    refuse,
    rejected,
    source_of,
    take_rows,
    without_repeats,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from earmark.spark.snapshot import Folder


class Given(NamedTuple):
    """How a DataFrame of subscriptions is to be read: the options of `Snapshot.publish` that are about rows."""

    attributes: Mapping[str, str] | None = None
    zone: str | None = None
    bounds: Mapping[str, tuple[str, str]] | None = None
    order_by: str | None = None
    on_error: str = "fail"


class Book(NamedTuple):
    """What was read: the table, and the rows that are not in it, with the reasons (parts.py: REJECTS)."""

    stored: Stored
    rejects: pa.Table


def working_folder(parent: Folder | None, what: str) -> Path:
    """A new folder: under a given one, where it stays, or in the system's place for such, until this process ends."""
    if parent is None:
        made = Path(tempfile.mkdtemp(prefix=f"earmark-{what}-"))
        atexit.register(shutil.rmtree, made, ignore_errors=True)
        return made
    if not Path(parent).is_dir():
        raise EarmarkError(f"the working folder {str(parent)!r} is not there; it is one that all workers see")
    made = Path(parent).absolute() / f"earmark-{what}-{secrets.token_hex(8)}"
    made.mkdir()  # not a private one: workers may belong to another user
    return made


@contextmanager
def removed_on_error(folder: Path) -> Iterator[None]:
    """Leave nothing behind where nothing came of it."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def read_book(subscriptions: DataFrame, folder: Path, given: Given, done: str) -> Book:
    """The rows of a DataFrame as one table, in the order of insertion. `done` is what did not happen on an error.

    The folder is removed when there is one.
    """
    with removed_on_error(folder):
        return _read_book(subscriptions, folder, given, done)


def _read_book(subscriptions: DataFrame, folder: Path, given: Given, done: str) -> Book:
    check_on_error(given.on_error)
    if given.attributes is not None and not isinstance(given.attributes, Mapping):
        raise EarmarkError(f"attributes map names to types, such as {{'age': 'integer'}}; got {given.attributes!r}")
    seed = Schema(given.zone or frames.session_zone(subscriptions.sparkSession))
    seed.declare(given.attributes or {})
    source = source_of(subscriptions, given.bounds, given.order_by, changes=False)
    for name in source.bounds or ():
        if name not in seed.by_name:
            seed.put(Attribute(len(seed), name, None, False, ""))
    taken = take_rows(source, folder / "parts", seed)
    frames.refuse_case_variants(subscriptions.sparkSession, taken.schema.names)
    book = _ordered(taken, given.on_error, done)
    shutil.rmtree(folder / "parts")
    if not book.stored.slots and source.integer_ids:
        return book._replace(stored=book.stored._replace(ids=np.empty(0, np.int64)))
    return book


def _ordered(taken: Taken, on_error: str, done: str) -> Book:
    """One table of all parts, in the order of insertion, each id once."""
    take_constants(taken.schema, (part.stored for part in taken.parts))
    stored = join([part.stored for part in taken.parts], taken.schema)
    if not taken.parts:
        refuse(taken.rejects, on_error, done)
        return Book(stored, taken.rejects)
    rows = pa.concat_tables([part.rows for part in taken.parts])
    order, repeats = without_repeats(rows, in_order(rows))
    rejects = pa.concat_tables([taken.rejects, rejected(rows, repeats, GIVEN_TWICE.format)]).sort_by("id")
    refuse(rejects, on_error, done)
    stored = pick(stored, order)
    arrays = stored.arrays._replace(sequence=np.arange(len(order), dtype=np.int64))
    return Book(stored._replace(arrays=arrays, next_sequence=len(order)), rejects)


def write_book(stored: Stored, folder: Path) -> str:
    """Write the table for the workers; returns where."""
    save_stored(stored, folder / "table")
    return str(folder / "table")
