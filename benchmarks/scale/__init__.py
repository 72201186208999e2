"""Searches with many workers: what they gain, and what they cost."""
