"""A study as its report sees it."""

from pathlib import Path

import pytest

from fp8tune.search.report.data import Case
from tests.search.report.studies import shown


@pytest.fixture
def whole(tmp_path: Path) -> Case:
    return shown(tmp_path / "s", output="a.tuned.toml")
