"""Space-filling curves: pure arithmetic on keys.

grid.py       what curves share: how fine a grid may be
hilbert.py    Hilbert's curve: numbers of cells, boxes as ranges of numbers, and how many those are
morton.py     the Z-curve: keys of cells at any resolution
space.py      from clauses and events to boxes of cells
"""
