"""Findings in the files of a user, and searches of recorded trials."""

from shutil import rmtree

import pytest

from fp8tune.trainers.packages import pinned
from tests.search.conftest import replay, without_plots

__all__ = ["found", "replay", "without_plots"]


@pytest.fixture
def found(fp8tune, project):
    """What lint finds in files that are alone in a folder, as its JSON has it."""

    def lint(files, *arguments):
        pinned.cache_clear()
        for old in project().iterdir():
            rmtree(old) if old.is_dir() else old.unlink()
        project(files)
        said = fp8tune("lint", "--output-format", "json", *arguments)
        assert said.code in (0, 1), said.err
        return said.json["diagnostics"] if said.out else []

    return lint
