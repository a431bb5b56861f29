"""Values and events that cannot be read: whether they end the run, and where they are listed otherwise.

    --on-error raise     the first is an error, and nothing is written
    --on-error null      a value that cannot be read counts as NULL
    --on-error reject    an event with a value that cannot be read is left out

An event that cannot be read at all (a broken line of JSON) is left out in the last two cases. The file of --reject has
one row (event, line, attribute, reason) for each value or event; `line` is NULL where a source has no lines.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    import pyarrow as pa

    from earmark.events.mappings import Reject
    from earmark.tabular.read import Chunk

OnError = Literal["raise", "null", "reject"]
MODES = ("raise", "null", "reject")
COLUMNS = ("event", "line", "attribute", "reason")


class Rejects:
    """Counts the values and events that were not read, and lists them in a file; `with` makes the file appear."""

    def __init__(self, on_error: OnError | None = None, path: str | None = None) -> None:
        if on_error == "raise" and path is not None:
            raise EarmarkError("--reject needs --on-error reject or --on-error null: raise rejects nothing")
        self.is_given = on_error is not None or path is not None
        self.on_error: OnError = on_error or ("raise" if path is None else "reject")
        self.path = path
        self.events = 0
        """Events left out."""
        self.values = 0
        """Values that count as NULL."""
        self._undo = contextlib.ExitStack()
        self._write: Callable[[pa.Table], None] | None = None

    def check(self, inputs: Sequence[str], output: str | None) -> None:
        """Refuse a file that could not be written, before the work starts."""
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
            self._opened("int64")
        self._undo.__exit__(kind, value, trace)

    def left_out(self, rejects: Sequence[Reject]) -> set[int]:
        """Return the events of a group that have no results."""
        return {r.event for r in rejects if self.on_error == "reject" or r.attribute is None}

    def take(self, group: Chunk, rejects: Sequence[Reject], names: pa.Array) -> None:
        """Count and list the rejects of a group; `names` are those of all its events."""
        if not rejects:
            return
        gone = self.left_out(rejects)
        self.events += len(gone)
        self.values += sum(r.event not in gone for r in rejects)
        if self.path is None:
            return
        import pyarrow as pa

        events, attributes, reasons = zip(*sorted(rejects, key=lambda r: r.event), strict=True)
        lines = [int(group.lines[row]) if len(group.lines) else None for row in events]
        columns = (names.take(pa.array(events)), pa.array(lines), pa.array(attributes), pa.array(reasons))
        self._opened(names.type)(pa.table(dict(zip(COLUMNS, columns, strict=True))))

    def _opened(self, name_type: Any) -> Callable[[pa.Table], None]:
        """Open the file, once the type of the events' names is known; return what appends to it."""
        import pyarrow as pa

        from earmark.tabular.write import writing

        if self._write is None:
            schema = pa.schema(list(zip(COLUMNS, (name_type, "int64", "string", "string"), strict=True)))
            self._write = self._undo.enter_context(writing(str(self.path), schema))
        return self._write

    def summary(self, events: int) -> str:
        """Return how much was not read, for people."""
        from earmark.language.words import counted

        parts = []
        if self.on_error == "null":
            parts.append(f"{counted(self.values, 'value')} not read and taken for NULL")
        if self.on_error == "reject" or self.events:
            parts.append(f"{self.events:,} of {counted(events, 'event')} rejected")
        return ", ".join(parts) + ("" if self.path is None else f", see {self.path}")

    def counts(self) -> dict[str, Any]:
        """Return how much was not read, for programs; nothing where that is an error."""
        if self.on_error == "raise":
            return {}
        counts = {"rejected_events": self.events, "null_values": self.values}
        return counts if self.path is None else {**counts, "reject": self.path}
