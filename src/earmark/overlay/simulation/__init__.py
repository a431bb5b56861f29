"""A network of brokers in one process, with a clock of its own: what does a policy cost, and does everything arrive?

topology.py   which brokers are neighbours
content.py    what is asked for and published: the workloads of both papers
plan.py       which client does what, and when
faults.py     delays, losses, cuts, crashes
history.py    what clients did and were told
oracle.py     whether that was right, by one central scan
tally.py      what went over the links
"""
