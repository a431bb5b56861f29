"""The algorithms without an index that papers compare theirs with, compiled."""
