"""The same matching on Spark. Importing this package needs neither pyspark nor Java; using it does."""

from __future__ import annotations

from earmark.spark.java import ensure_java

__all__ = ["ensure_java"]
