"""A published book of subscriptions that any number of Spark workers search.

    snapshot = Snapshot.publish(subscriptions, "/shared/ads")     version 1
    snapshot = snapshot.apply(changes)                            version 2, small: what changed since version 1
    snapshot = snapshot.compact()                                 version 3, full again

A snapshot names one version, which never changes; `Snapshot.open(path)` is the newest. The folder must be visible under
the same path to the driver and to every worker: a local folder on one machine, a shared mount on a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from earmark.book import contents
from earmark.book import folder as folders
from earmark.book.folder import VersionInfo
from earmark.book.parts import REJECTS
from earmark.errors import EarmarkError, TableError
from earmark.keys.records import schema_of
from earmark.keys.schema import Schema
from earmark.spark import changes as following
from earmark.spark import frames, publish
from earmark.spark.intake import FAIL, ReadOptions

Folder = str | os.PathLike[str]
DEFAULT_INDEX = "blocks"
"""A version never changes, so its index need not support updates."""


class Snapshot:
    """One immutable version of the subscriptions under a path, from `publish`, `open` or `apply`."""

    def __init__(self, path: Path, record: Mapping[str, Any]) -> None:
        self.path = path
        """The folder of all versions."""
        self.record = record
        """The record of the version (book/folder.py)."""
        contents.verify(path, record)
        self.schema: Schema = contents.said(path, record, lambda: schema_of(record))
        """The attributes, without the keys of string constants."""

    @classmethod
    def publish(
        cls,
        subscriptions: DataFrame,
        path: Folder,
        *,
        index: str = DEFAULT_INDEX,
        attributes: Mapping[str, str] | None = None,
        zone: str | None = None,
        bounds: Mapping[str, tuple[str, str]] | None = None,
        order_by: str | None = None,
        on_error: str = FAIL,
        shards: int = 1,
    ) -> Snapshot:
        """Make a DataFrame of subscriptions the newest version under a path.

        Columns: `id` and `condition`, optionally `weights` (a map), `score` and `tags` (a map); or ready-made bounds,
        as `Matcher.add_many` takes them (`ranges`, or pairs `age_lo`, `age_hi`, or as `bounds` names them).
        Conditions are parsed on the executors. The order of insertion, which breaks ties, is that of the column
        `order_by`, then of `id`. `zone` is the session's time zone by default.

        `shards` is the number of tables: similar subscriptions share one, and an event is searched only in those that
        may match it. This is for books that outgrow the memory of a worker. The answers are the same.

        Rows that cannot be used are an error that names the first few; with `on_error="reject"` they are in `rejects`
        instead, with the reason. Of two rows with one id, the first in the order is taken. Raises `Conflict` when
        another writer publishes in the meantime.
        """
        root = folders.root_of(path)
        options = ReadOptions(attributes, zone, bounds, order_by, on_error)
        return cls(root, publish.publish(subscriptions, root, options, index, shards))

    @classmethod
    def open(cls, path: Folder, version: int | None = None) -> Snapshot:
        """Open a published version, or one that a Matcher saved; the newest by default.

        Checksums are verified once on each host.
        """
        root = folders.root_of(path)
        snapshot: Snapshot = folders.newest(root, version, lambda record: cls(root, record))
        return snapshot

    def latest(self) -> Snapshot:
        """Open the newest version under the same path."""
        return type(self).open(self.path)

    def __repr__(self) -> str:
        return f"<Snapshot {str(self.path)!r}: version {self.version}, {len(self):,} subscriptions>"

    def __len__(self) -> int:
        """Return how many subscriptions are live in this version."""
        return int(self.record["subscriptions"])

    def __bool__(self) -> bool:
        """Return True: an empty snapshot is still one."""
        return True

    @property
    def version(self) -> int:
        """The number of this version, 1 or more; the column `snapshot_version` of results."""
        return int(self.record["version"])

    @property
    def info(self) -> VersionInfo:
        """Number, parent, kind, time, counts of this version."""
        return folders.described(self.record)

    @property
    def shards(self) -> int:
        """The number of shards, apart from what was changed since the last full version."""
        return following.shards_of(self.record)

    @property
    def segments(self) -> int:
        """The number of segments: the shards, and what was changed since the last full version."""
        return len(self.record["segments"])

    @property
    def integer_ids(self) -> bool:
        """Whether ids are integers; otherwise they are strings."""
        return bool(self.record["integer_ids"])

    @property
    def attributes(self) -> dict[str, str | None]:
        """The types of attributes by name; None where conditions only ask for NULL."""
        return {a.name: str(a.type) if a.type else None for a in self.schema}

    @property
    def zone(self) -> str:
        """The time zone in which times without one are read."""
        return self.schema.zone_name

    @property
    def rejects(self) -> DataFrame:
        """The rows that were rejected in this version: id, op (of a change), condition, reason."""
        schema = frames.struct_of(dict.fromkeys(REJECTS.names, StringType()))
        folder = folders.version_folder(self.path, self.version) / "rejects"
        if not folder.is_dir():
            raise TableError(f"version {self.version} of {str(self.path)!r} is no longer there")
        return SparkSession.active().read.schema(schema).parquet(folder.as_uri())

    def versions(self) -> list[VersionInfo]:
        """Return all versions under the path, oldest first."""
        newest = folders.current_version(self.path)
        numbers = [n for n in folders.version_numbers(self.path) if n <= newest]
        return [folders.described(folders.read_record(self.path, n)) for n in numbers]

    def apply(self, changes: DataFrame, *, order_by: str | None = None, on_error: str = FAIL) -> Snapshot:
        """Publish the next version: this one with some subscriptions added, replaced or removed.

        `changes` has the columns of `publish` and `op`: `add` (the id must be new), `update` (it must be live; the
        subscription is replaced as a whole and keeps its place in the order), `upsert` (either), `remove`. An id may
        have one change per call. All changes are made, or none; with `on_error="reject"`, those that cannot be made are
        in `rejects`. Without any row there is no new version.

        Raises `Conflict` when this is no longer the newest version.
        """
        return Snapshot(self.path, following.apply(self.path, self.record, changes, order_by, on_error))

    def compact(self, shards: int | None = None) -> Snapshot:
        """Publish the next version: the same subscriptions without a table of changes, which is quicker to search.

        They are split again into shards, as many as before by default.
        """
        return Snapshot(self.path, following.compact(self.path, self.record, shards))

    def retain(self, keep: int | timedelta) -> list[int]:
        """Remove old versions: all but the newest `keep`, or those older than `keep`; return their numbers.

        The newest stays, and so do pinned ones. Files that no other version uses are removed with them.
        """
        if isinstance(keep, timedelta):
            oldest = datetime.now(UTC) - keep
            return folders.remove_versions(self.path, lambda all_: {v.number for v in all_ if v.created < oldest})
        if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
            raise EarmarkError(f"keep: expected a number of versions, 1 or more, or a timedelta, got {keep!r}")
        return folders.remove_versions(self.path, lambda all_: {v.number for v in all_[:-keep]})

    def pin(self, owner: str) -> None:
        """Keep this version from `retain` until `unpin`; `owner` is a name such as a query's."""
        folders.pin(self.path, self.version, owner)

    def unpin(self, owner: str) -> None:
        """Remove this owner's pin from this version, if there is one."""
        folders.unpin(self.path, self.version, owner)
