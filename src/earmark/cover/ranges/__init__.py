"""Subscriptions as ranges of a Hilbert curve (MICS): what a broker tells its neighbours, and what they ask it."""
