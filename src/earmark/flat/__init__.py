"""Flat arrays under everything: element types, bitmaps, columns that grow, unchecked access for kernels."""
