"""Scored intervals of one attribute, best first: what the indexes of ranked publish/subscribe share.

arrays.py    the flat arrays of all of them       lists.py    which interval is in which list, with which score
forest.py    building the trees                    walk.py     getnext() on them, for kernels
base.py      the index class                       getnext.py  getnext() from Python
check.py     invariants, and arrays from outside   update.py   insert and remove
"""
