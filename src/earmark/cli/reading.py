"""How a command reads its inputs, and the checks that need no input read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from earmark.errors import EarmarkError

if TYPE_CHECKING:
    from earmark.tabular.source import Source


@dataclass(frozen=True, slots=True)
class Reading:
    """The options that say how subscriptions and events are read, and which index searches them."""

    attributes: Mapping[str, str]
    zone: str | None
    format: str | None
    delimiter: str | None
    index: str | None

    def source(self, path: str) -> Source:
        """Return the file of this name, or standard input."""
        from earmark.tabular.source import source_of

        return source_of(path, self.format, self.delimiter)

    def check(self, *paths: str, output: str | None = None) -> None:
        """Refuse inputs that could not be read, standard input given twice, and options that no input needs.

        Refuse an output that could not be written, too, or that is one of the inputs.
        """
        from earmark.tabular.source import STDIN, format_of
        from earmark.tabular.write import check_target

        if paths.count(STDIN) > 1:
            raise EarmarkError("only one input can be '-': standard input is read once")
        if self.index is not None:
            from earmark.index import builder

            builder(self.index)
        files = [path for path in paths if not os.path.isdir(path)]
        if self.format is not None and all(format_of(path) is not None for path in files):
            raise EarmarkError("--format is for standard input and for file names that do not say their format")
        sources = [self.source(path) for path in files]
        separated = [source for source in sources if source.format == "csv" and source.delimiter == self.delimiter]
        if self.delimiter is not None and not separated:
            raise EarmarkError("--delimiter is for CSV, and no input is CSV")
        if output is not None:
            check_target(output, paths)
