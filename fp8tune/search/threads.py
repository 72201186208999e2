"""NumPy on one thread: a search's matrices are small, and threads only get in the way.

On two busy cores a search of 3,000 settings took 9 s with OpenBLAS's own threads, 3 s
with one.
"""

from __future__ import annotations

import os

NAMES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def load_numpy() -> None:
    """Import NumPy with one thread; trials still see the environment as it was.

    Raises ``ModuleNotFoundError``. What the user has set is kept.
    """
    ours = [name for name in NAMES if name not in os.environ]
    os.environ.update(dict.fromkeys(ours, "1"))
    try:
        import numpy  # noqa: F401
    finally:
        for name in ours:
            del os.environ[name]
