"""NumPy is loaded with one thread, and nobody else notices."""

import os

import pytest

from fp8tune.search import THREADS, load_numpy


@pytest.mark.parametrize("mine", [None, "7"])
def test_the_environment_is_as_it_was(monkeypatch, mine):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    if mine:
        monkeypatch.setenv(THREADS[0], mine)
    before = dict(os.environ)
    load_numpy()
    assert dict(os.environ) == before
