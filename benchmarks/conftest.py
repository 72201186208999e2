"""The fixtures of tests that those of benchmarks use too, and one of theirs."""

from collections.abc import Iterator

import pytest

from tests.conftest import builtin, job, kempnerforge, load, repository, rules

__all__ = ["builtin", "job", "kempnerforge", "load", "repository", "rules"]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Each thread of a matmul has a buffer of its own."""
    torch = pytest.importorskip("torch")
    count = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(count)
