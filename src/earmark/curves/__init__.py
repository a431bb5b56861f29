"""Space-filling curves: pure arithmetic on keys."""
