"""What did Spark say, in one sentence?

Where a worker, a data source or the function of a micro-batch raises one of our errors, Spark wraps it in its own, with
the tracebacks of two languages around it. The last line of the innermost traceback is ours.
"""

from __future__ import annotations

import re
from typing import Any

from earmark import errors
from earmark.errors import EarmarkError

_OURS = re.compile(r"^(?:\S*\s+)?earmark\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_THEIRS = re.compile(r"^(?:\w+\.)*([A-Z]\w*(?:: .+)?)$", re.MULTILINE)
_JAVA = re.compile(r"^Caused by:|^JVM stacktrace", re.MULTILINE)
_KILLED = re.compile(r"Python worker exited unexpectedly|PYTHON_WORKER_EXITED|worker.{0,40}crashed", re.IGNORECASE)
_LONGEST = 600


def sentence_of(problem: BaseException) -> EarmarkError:
    """Return our error inside an exception of Spark's, or else one that says in a line what Spark said."""
    if isinstance(problem, EarmarkError):
        return problem
    ours = _OURS.findall(str(problem))
    if ours:
        name, sentence = ours[-1]
        kind = getattr(errors, name, EarmarkError)
        return kind(sentence.strip()) if issubclass(kind, EarmarkError) else EarmarkError(sentence.strip())
    if _KILLED.search(str(problem)):
        return EarmarkError(
            "a Python worker was killed in the middle of a task, by the system for want of memory or by hand; where it "
            "was memory, carry fewer columns, use more partitions, or give the workers more"
        )
    return EarmarkError(f"Spark failed: {message_of(problem)}")


def collected(frame: Any) -> list[Any]:
    """Return the rows of a DataFrame of ours; what Spark raises becomes a sentence."""
    try:
        return list(frame.collect())
    except Exception as problem:  # Spark's own have no common base on classic and Connect
        raise sentence_of(problem) from problem


def message_of(problem: BaseException) -> str:
    """Return what an exception of Spark's says, in one line, without Spark's own bookkeeping behind it."""
    text = str(problem)
    python = _JAVA.split(text)[0]
    if _TRACEBACK in python and (raised := _THEIRS.search(python.rpartition(_TRACEBACK)[2])):
        return raised[1].strip()[:_LONGEST]
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(problem).__name__)
    return re.sub(r" SQLSTATE: \w+$", "", line)[:_LONGEST]
