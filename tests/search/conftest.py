"""NumPy as a search has it."""

from fp8tune.search.threads import load_numpy

load_numpy()
