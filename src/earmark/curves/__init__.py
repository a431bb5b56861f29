"""Space-filling curves: pure arithmetic on keys.

grid.py       how fine a grid may be, and which cells and numbers it has
hilbert.py    Hilbert's curve: numbers of cells, boxes as ranges of numbers, and how many those are
space.py      from clauses and events to boxes of cells
"""
