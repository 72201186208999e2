"""NumPy as a search has it, and searches of recorded trials."""

import pytest

from fp8tune.search import load_numpy
from tests.search.replayed import CONFIG, RECORDS, lines

load_numpy()


@pytest.fixture
def without_plots(monkeypatch):
    """Write reports without their plots, which take most of the time of a replay."""
    empty = "fp8tune.report.html.to_svg", lambda *_: "<svg />"
    monkeypatch.setattr(*empty)


@pytest.fixture
def replay(project, fp8tune, without_plots):
    """Search CONFIG on records; the outcome."""

    def run(records=RECORDS, *arguments, budget="2h", config=CONFIG):
        text = records if isinstance(records, str) else lines(records)
        project({"a.toml": config, "r.jsonl": text})
        command = ("search", "a.toml", "--runner", "replay", "--records", "r.jsonl")
        return fp8tune(*command, "--budget", budget, *arguments)

    return run
