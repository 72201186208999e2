"""Search: short real trials in a time budget; the best setting is written back."""

from __future__ import annotations

import os


class CannotSearch(Exception):
    """A search cannot start or write its result; the message says what to do."""


THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def load_numpy() -> None:
    """Import NumPy with one thread, without changing the environment of trials.

    A search's matrices are small: with 3,000 settings on two busy cores it took 9 s
    with OpenBLAS's own threads and 3 s with one. Variables that the user has set are
    kept. Raises ``ModuleNotFoundError``.
    """
    ours = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        import numpy  # noqa: F401
    finally:
        for name in ours:
            del os.environ[name]
