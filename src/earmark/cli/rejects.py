"""What cannot be read of events: whether that ends the run, and where it is noted otherwise.

    --on-error raise     the first is an error, and nothing is written
    --on-error null      a value that cannot be read counts as NULL
    --on-error reject    an event of which something cannot be read is left out

An event that cannot be read at all (a broken line of JSON) is left out in the last two cases. The file of --reject has
one row (event, line, attribute, reason) for each value or event; `line` is NULL where a source has no lines.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    import pyarrow as pa

    from earmark.events.mappings import Reject
    from earmark.tabular.read import Chunk
    from earmark.tabular.write import Writer

OnError = Literal["raise", "null", "reject"]
MODES = ("raise", "null", "reject")


class Rejects:
    """Counts what was not read, and writes it to a file if there is one; `with` makes the file appear."""

    def __init__(self, on_error: OnError | None = None, path: str | None = None) -> None:
        if on_error == "raise" and path is not None:
            raise EarmarkError("--reject needs --on-error reject or --on-error null; with raise nothing is left out")
        self.is_given = on_error is not None or path is not None
        self.on_error: OnError = on_error or ("raise" if path is None else "reject")
        self.path = path
        self.events = 0
        """Events left out."""
        self.values = 0
        """Values that count as NULL."""
        self._undo = contextlib.ExitStack()
        self._writer: Writer | None = None

    def check(self, inputs: Sequence[str], output: str | None) -> None:
        """Refuse early a file that could not be written."""
        from earmark.tabular.write import check_target

        if self.path is None:
            return
        check_target(self.path, inputs)
        if output is not None and os.path.realpath(output) == os.path.realpath(self.path):
            raise EarmarkError(f"{self.path!r} cannot be written: the results go there")

    def __enter__(self) -> Rejects:
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        if kind is None and self.path is not None:
            self._opened(None)
        self._undo.__exit__(kind, value, trace)

    def left_out(self, rejects: Sequence[Reject]) -> set[int]:
        """The events, among those of a group, that have no results."""
        return {one.event for one in rejects if self.on_error == "reject" or one.attribute is None}

    def take(self, group: Chunk, rejects: Sequence[Reject], names: pa.Array) -> None:
        """Note what was not read of a group; `names` are those of all its events."""
        if not rejects:
            return
        gone = self.left_out(rejects)
        self.events += len(gone)
        self.values += sum(one.event not in gone for one in rejects)
        if self.path is None:
            return
        import pyarrow as pa

        rows = sorted(rejects, key=lambda one: one.event)
        places = [one.event for one in rows]
        lines = [int(group.lines[row]) if len(group.lines) else None for row in places]
        columns = {
            "event": names.take(pa.array(places)),
            "line": pa.array(lines, pa.int64()),
            "attribute": pa.array([one.attribute for one in rows], pa.string()),
            "reason": pa.array([one.reason for one in rows], pa.string()),
        }
        self._opened(names.type).write(pa.table(columns))

    def _opened(self, name_type: Any) -> Writer:
        """The writer of the file, made when the type of what names events is known."""
        import pyarrow as pa

        from earmark.tabular.write import Writer

        if self._writer is None:
            types = {"event": name_type or pa.int64(), "line": pa.int64(), "attribute": pa.string()}
            self._writer = self._undo.enter_context(Writer(str(self.path), pa.schema({**types, "reason": pa.string()})))
        return self._writer

    def summary(self, events: int) -> str:
        """How much was not read, for people."""
        from earmark.cli.output import counted

        parts = []
        if self.on_error == "null":
            parts.append(f"{counted(self.values, 'value')} not read and taken for NULL")
        if self.on_error == "reject" or self.events:
            parts.append(f"{self.events:,} of {counted(events, 'event')} rejected")
        return ", ".join(parts) + ("" if self.path is None else f", see {self.path}")

    def counts(self) -> dict[str, Any]:
        """How much was not read, for programs; nothing where that is an error."""
        if self.on_error == "raise":
            return {}
        counts = {"rejected_events": self.events, "null_values": self.values}
        return counts if self.path is None else {**counts, "reject": self.path}
