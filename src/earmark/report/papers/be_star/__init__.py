"""BE*-Tree (be-star-tree.txt): Table II and Figures 6 to 9, over all eleven columns of Table III.

    contenders.py   the structures, and how they are raced
    micro.py        Table II: leaf capacity, construction
    spaces.py       Figures 6 and 7: cardinality, dimensions, sizes, clusters; memory
    ranking.py      Figures 8 and 9: the best 1 and 5, by workload size and matching probability
    adaptation.py   beyond the figures: adapting to events that shift (V-B), and trees grown against trees built

BE* and BE are trees that grew clause by clause; "bulk" are the same trees with all clauses known in advance, and are
compared with each other. k-index searches by counting, which is faster here than what was published ("conjunction"),
wherever all matches are wanted, and both ways where the best are.
"""

from __future__ import annotations

from earmark.report.papers.be_star import adaptation, micro, ranking, spaces

EXPERIMENTS = [*micro.EXPERIMENTS, *spaces.EXPERIMENTS, *ranking.EXPERIMENTS, *adaptation.EXPERIMENTS]
