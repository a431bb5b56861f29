"""Subscriptions and events in files: Parquet, CSV and JSON lines, read and written in batches.

    source.py      a file or standard input: its format, its compression, its bytes; chunks of its rows
    read.py        a source as chunks of rows
    csvfile.py     CSV text in blocks of whole records, whose columns take the types of the attributes they feed
    subscriptions.py    a whole file, in the form that `Matcher.add_many` takes
    write.py       a file appears under its name only when it is complete

The format follows from the file's name.
"""

from __future__ import annotations
