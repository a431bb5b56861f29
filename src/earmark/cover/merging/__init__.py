"""Fewer conditions for the same events: boxes united within a budget of extra traffic."""
