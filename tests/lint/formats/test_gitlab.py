"""GitLab's code quality report, by GitLab's table of fields."""

import pytest

from tests.lint.formats.gitlab_report import checked
from tests.lint.formats.samples import SLOW
from tests.sample import TP


@pytest.fixture
def report(fp8tune):
    def lint(*arguments):
        return checked(fp8tune("lint", *arguments, "--output-format", "gitlab").out)

    return lint


def test_every_sample_is_valid(sample):
    issues = checked(sample("gitlab").out)
    assert len(issues) == len(sample("json").json["diagnostics"])


@pytest.mark.parametrize(
    ("category", "level", "severity"),
    [
        ("rejected", "error", "blocker"),
        ("rejected", "warning", "major"),
        ("rejected", "note", "info"),
        ("slow", "error", "critical"),
        ("slow", "warning", "major"),
    ],
)
def test_severity(project, report, category, level, severity):
    settings = f"[tool.fp8tune.severity]\n{category} = '{level}'\n"
    project({"a.toml": SLOW, "pyproject.toml": settings})
    said = report("a.toml", "--select", category)
    assert {issue["severity"] for issue in said} == {severity}


def test_paths_count_from_the_checkout(project, report, tmp_path, monkeypatch):
    project({"sub/a.toml": TP})
    monkeypatch.chdir("sub")
    assert report("a.toml")[0]["location"]["path"] == "a.toml"
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    assert report("a.toml")[0]["location"]["path"] == "sub/a.toml"
    monkeypatch.setenv("CI_PROJECT_DIR", "/nowhere")
    assert report("a.toml")[0]["location"]["path"] == "a.toml"
