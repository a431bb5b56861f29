"""An outside opinion on what conditions mean: naive, slow, pure Python, and nothing of it from the package.

syntax.py    conditions as a tree, and their SQL text
naive.py     what Spark SQL gives for a condition and a row
ranking.py   clauses, constraints, exact and relaxed scores, extended events
generate.py  random conditions, rows and boxes, seeded; hypothesis strategies over them
spellings.py SQL text that parsers trip over, and rows that tell the readings apart
"""
