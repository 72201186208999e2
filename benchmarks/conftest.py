"""The fixtures of tests that those of benchmarks use too."""

from tests.conftest import builtin, job, kempnerforge, load, repository, rules

__all__ = ["builtin", "job", "kempnerforge", "load", "repository", "rules"]
