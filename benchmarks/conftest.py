"""The fixtures of tests that those of benchmarks use too."""

from tests.conftest import builtin, job, repository, rules
