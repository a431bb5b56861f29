"""Subscriptions and events in files: Parquet, CSV and JSON lines, read and written in batches.

    source.py      a file or standard input: its format, its compression, its bytes
    read.py        chunks of rows, and where in the source each row is
    records.py     CSV text in blocks of whole records
    csvtypes.py    CSV has no types: a column takes the type of the attribute it feeds
    subscriptions.py    a whole file, in the form that `Matcher.add_many` takes
    write.py       a file appears under its name only when it is complete

The format follows from the file's name.
"""

from __future__ import annotations
