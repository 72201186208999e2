"""JUnit reports, by the schema of Jenkins' xUnit plugin."""

import pytest

from tests.lint.formats.junit_report import checked
from tests.sample import GOOD, TP


@pytest.fixture
def report(fp8tune):
    def lint(*arguments):
        return checked(fp8tune("lint", *arguments, "--output-format", "junit").out)

    return lint


def test_every_sample_is_valid(sample):
    root = checked(sample("junit").out)
    told = sample("json").json
    assert int(root.get("failures")) == len(told["diagnostics"])
    assert len(list(root.iter("skipped"))) == len(told["suppressed"])


def test_a_stale_baseline_fails(project, fp8tune, report):
    project({"a.toml": TP})
    baseline = ("--baseline", "known.json")
    fp8tune("lint", ".", *baseline, "--update-baseline")
    assert report(".", *baseline).get("failures") == "0"
    project({"a.toml": GOOD})
    root = report(".", *baseline)
    assert [(s.get("name"), s.get("failures")) for s in root] == [
        ("a.toml", "0"),
        ("stale", "1"),
    ]
