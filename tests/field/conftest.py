"""Searches of recorded trials, as the tests of the search have them."""

from tests.search.conftest import replay, without_plots

__all__ = ["replay", "without_plots"]
