"""Scored intervals of one attribute, best first: the indexes of ranked publish/subscribe, and what they share.

trees.py        interval tree, segment tree, R-tree      arrays.py     the flat arrays of all of them
ir_tree.py      IR-tree, which takes updates             lists.py      which interval is in which list, at which score
sopt_r_tree.py  SOPT-R-tree                              forest.py     building the trees
cell_table.py   cells that are looked up                 walk.py       what of a list an event meets: getnext()
base.py         the index class                          match.py      all that an event matches
check.py        invariants, and arrays from outside      threshold.py  the best k over several lists
                                                         update.py     insert and remove
"""
