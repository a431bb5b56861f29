"""The one sentence inside what pyspark throws.

Where a worker, a data source or the function of a micro-batch raises one of our errors, Spark wraps it in its own, with
the tracebacks of two languages around it. The last line of the innermost traceback is ours.
"""

from __future__ import annotations

import re

from earmark import errors
from earmark.errors import EarmarkError

OURS = re.compile(r"^(?:\S*\s+)?earmark\.(?:\w+\.)*(\w+): (.+)$", re.MULTILINE)
THEIRS = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception): .+)$", re.MULTILINE)
JAVA = re.compile(r"^Caused by:|^JVM stacktrace", re.MULTILINE)
LONGEST = 600


def sentence_of(problem: BaseException) -> EarmarkError:
    """Our error inside an exception of Spark's, or else one that says in a line what Spark said."""
    if isinstance(problem, EarmarkError):
        return problem
    text = str(problem)
    found = OURS.findall(text)
    if found:
        name, sentence = found[-1]
        kind = getattr(errors, name, EarmarkError)
        return kind(sentence.strip()) if issubclass(kind, EarmarkError) else EarmarkError(sentence.strip())
    return EarmarkError(f"Spark failed: {words_of(problem)}")


def words_of(problem: BaseException) -> str:
    """What an exception of Spark's says, in one line."""
    text = str(problem)
    python = JAVA.split(text)[0]
    if "Traceback (most recent call last)" in python and (raised := THEIRS.findall(python)):
        return str(raised[-1].strip()[:LONGEST])
    return _first_line(text) or type(problem).__name__


def _first_line(text: str) -> str:
    """The first line that says something, without Spark's own bookkeeping behind it."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    line = re.sub(r" SQLSTATE: \w+$", "", line)
    return line[:LONGEST]
