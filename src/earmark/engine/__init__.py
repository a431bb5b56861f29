"""A segment with its index, and many of them: what a change makes, and what a search asks."""
