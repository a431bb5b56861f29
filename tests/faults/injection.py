"""Raise an exception at a chosen line of our own code, while something runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import earmark

OURS = str(Path(earmark.__file__).parent)
Line = tuple[str, int]


class Injection:
    """Counts the lines of earmark that run, each once, and raises when the `at`-th is about to run.

    `within` are the files that count, or the beginnings of their paths.
    """

    def __init__(
        self,
        at: int | None = None,
        problem: type[BaseException] = KeyboardInterrupt,
        within: tuple[str, ...] = (OURS,),
    ) -> None:
        self.at = at
        self.problem = problem
        self.within = within
        self.lines: dict[Line, int] = {}
        self.where: Line | None = None

    def __call__(self, run: Callable[[], Any]) -> bool:
        """Run it; whether it was interrupted."""
        sys.settrace(self._trace)
        try:
            run()
        except self.problem:
            return True
        finally:
            sys.settrace(None)
        return False

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self.within) else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            line = (frame.f_code.co_filename, frame.f_lineno)
            if line not in self.lines:
                self.lines[line] = len(self.lines)
                if self.lines[line] == self.at:
                    self.where = line
                    raise self.problem
        return self._line
