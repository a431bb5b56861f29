"""Values become signed 64-bit keys that keep order, and conditions become sets of keys."""
