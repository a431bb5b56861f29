"""How is history forgotten: all that is older than a change, or everything that was ever known of one subscription?

    retain     changes 1 … 41                    become change 41, "what the book was then"
    erase      every row of an id                is taken out of its change, whatever the form; the change itself stays

Both rewrite rows of the journal in one transaction, and then the whole database, since SQLite keeps what was deleted in
pages that it may use later. The WAL is emptied as well. What a file system, a backup or a version that someone has
pinned keeps is out of reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from earmark.book import touched
from earmark.book.journal import MOST_PARTS, Journal, Stored, digest_of_part, entry
from earmark.book.opening import whole
from earmark.book.rows import ADDED, REMOVED, ROWS, Part, hash_of, part_of_rows, read_rows, table_in, tables_of
from earmark.engine.compaction import Build
from earmark.engine.version import IndexedSegment, Version
from earmark.keys.schema import Draft, Schema
from earmark.segment import arrow
from earmark.segment.ids import Id
from earmark.segment.join import on_its_own


def forget(journal: Journal, until: int, version: Version) -> None:
    """Put what the book was after a change in the place of all changes up to it."""
    last = journal.change(until)
    assert last is not None
    made, parts = entry(until, last.time, None, None, "retain", whole(version))
    with journal.writing("written") as connection:
        connection.execute("DELETE FROM changes WHERE number <= ?", (until,))
        connection.execute("DELETE FROM parts WHERE place < ?", ((until + 1) * MOST_PARTS,))
        connection.execute("DELETE FROM touched WHERE change <= ?", (until,))
        connection.execute("DELETE FROM pages WHERE change <= ?", (until,))
        journal.put(connection, [(made, parts)])
        journal.put_facts(connection, first=until)
    journal.refresh_facts()


def erase(journal: Journal, id: Id, change: tuple[Stored, Sequence[Part]], schema: Schema) -> bool:
    """Take every row of an id out of the journal, and add the change that says so; whether there was any."""
    found, hashed = False, hash_of(id)
    with journal.writing("written") as connection:
        for number, places in journal.touching(id).items():
            old = journal.change(number)
            if old is None:
                continue
            removed, left = 0, set()  # parts with another id of the same hash
            if old.body is not None:
                kept = [row for row in read_rows(old.body) if row[0] != id]
                removed = len(read_rows(old.body)) - len(kept)
                part = part_of_rows(kept)
                old = old._replace(body=part.body)
                left = {0} if hashed in part.hashes else set()
            else:
                for place in sorted(set(places)):
                    (stored,) = journal.parts(old, [place])
                    count, part = _without_rows(*stored, id, schema)
                    if count:
                        _replace_part(connection, number, place, part)
                    if hashed in part.hashes:
                        left.add(place)
                    removed += count
            if removed:
                found = True
                journal.rewrite(connection, old._replace(rows=old.rows - removed))
                touched.forget(connection, hashed, number, left)
        journal.put(connection, [change])
        journal.put_facts(connection, erasing=True, erased=change[0].number)
    return found


def _without_rows(form: str, body: bytes, id: Id, schema: Schema) -> tuple[int, Part]:
    """How many rows of an id a part has, and the part without them."""
    if form == ROWS:
        rows = read_rows(body)
        kept = [row for row in rows if row[0] != id]
        return len(rows) - len(kept), part_of_rows(kept)
    if form not in (ADDED, REMOVED):
        return 0, Part(form, body, ())
    table = table_in(body)
    others = np.flatnonzero([one != id for one in table.column("id").to_pylist()])
    own = Schema(schema.zone_name, nan_is_null=schema.nan_is_null, time=schema.time)
    segment = arrow.prepare_native(own, table).segment(0)
    return table.num_rows - len(others), next(iter(_tables(form, segment, others)), part_of_rows([]))


def _replace_part(connection: Any, number: int, place: int, part: Part) -> None:
    connection.execute(
        "UPDATE parts SET form = ?, body = ?, checksum = ? WHERE place = ?",
        (part.form, part.body, digest_of_part(number, place, part), number * MOST_PARTS + place),
    )


def _tables(form: str, segment: Any, slots: Any) -> Iterator[Part]:
    return tables_of(form, segment, slots) if len(slots) else iter(())


def without(version: Version, id: Id, build: Build | None) -> Version:
    """A version that has no trace of an id: neither its text and tags, nor names and constants that only it used."""
    place = version.find(id)
    return of_the_living(version if place is None else version.removed([place]), build)


def of_the_living(version: Version, build: Build | None) -> Version:
    """A version with the same subscriptions, and no trace of those that were removed."""
    segment = on_its_own(version.joined(version.segments))
    schema = segment.schema
    draft = Draft(schema)
    unused = [one for one in version.schema if one.declared and one.name not in schema.by_name]
    draft.declare({one.name: str(one.type) for one in unused})
    for attribute in draft.new.values():
        schema.put(attribute)
    schema.strict = version.schema.strict
    segments = []
    if len(segment):
        segments = [IndexedSegment.of(segment, build(segment.arrays) if build is not None else None)]
    return Version.of(schema, segments, version.next_sequence)
