"""A DataFrame of subscriptions as one table that workers map, without publishing it: what hygiene starts from.

    DataFrame ──► parts in the order of insertion (intake.py) ──► one table ──► a working folder

The same as `publish` (types, string keys, the order, rejected rows), but no version, no index, and nothing that lasts:
the working folder belongs to one call. As with snapshots, the driver holds whole columns and no Python object for each
subscription, and the folder must be visible to the driver and to all workers under the same path.
"""

from __future__ import annotations

import atexit
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from earmark.errors import EarmarkError
from earmark.segment.stored import Stored
from earmark.spark.intake import Given, ordered, refuse, subscriptions_of, take_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from earmark.spark.snapshot import Folder


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
    """The rows of a DataFrame as one table, in the order of insertion. `done` is what did not happen on an error."""
    source, seed = subscriptions_of(subscriptions, given)
    stored, rejects = ordered(take_rows(source, folder / "parts", seed))
    refuse(rejects, given.on_error, done)
    shutil.rmtree(folder / "parts")
    return Book(stored, rejects.sort_by("id"))
