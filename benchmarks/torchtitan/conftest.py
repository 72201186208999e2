"""The fixtures of torchtitan's tests."""

from tests.trainers.torchtitan.conftest import job, load

__all__ = ["job", "load"]
