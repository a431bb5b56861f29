"""Text becomes clauses: what a condition says, before anything is known about its attributes."""
