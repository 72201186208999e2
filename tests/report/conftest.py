"""A study as its report sees it."""

from pathlib import Path

import pytest

from fp8tune.report.data import StudyReport
from tests.report.studies import report_of
from tests.search.conftest import replay, without_plots

__all__ = ["replay", "whole", "without_plots"]


@pytest.fixture
def whole(tmp_path: Path) -> StudyReport:
    return report_of(tmp_path / "s", output="a.tuned.toml")
