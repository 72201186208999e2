"""Searches with many workers: what they gain, and what they cost."""

from fp8tune.search import load_numpy

load_numpy()  # with one thread, as a search does, before any module here imports it
