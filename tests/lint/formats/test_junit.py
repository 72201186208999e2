"""JUnit reports, by the schema of Jenkins' xUnit plugin."""

import pytest

from tests.lint.formats.junit_report import checked
from tests.lint.formats.samples import HELD
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


def test_a_report(write, fp8tune):
    write({"a.toml": TP, "b.toml": GOOD, "c.toml": HELD})
    said = fp8tune("lint", ".", "gone", "--output-format", "junit")
    checked(said.out)
    assert (
        said.out
        == """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="fp8tune" tests="4" failures="1" errors="1">
  <testsuite name="a.toml" tests="1" failures="1" errors="0" skipped="0">
    <testcase name="fp8-with-tensor-parallel distributed.tp" classname="a.toml">
      <failure type="error" message="FP8 does not work with tensor parallelism in this \
trainer (`distributed.tp = 4`)">a.toml:4:6: splits every linear over 4 GPUs
a.toml:2:19: converts every linear to Float8Linear
help: set `distributed.tp = 1` and shard with FSDP only, or train in bf16
why: fp8tune explain fp8-with-tensor-parallel</failure>
    </testcase>
  </testsuite>
  <testsuite name="b.toml" tests="1" failures="0" errors="0" skipped="0">
    <testcase name="no findings" classname="b.toml" />
  </testsuite>
  <testsuite name="c.toml" tests="1" failures="0" errors="0" skipped="1">
    <testcase name="fp8-with-tensor-parallel distributed.tp" classname="c.toml">
      <skipped message="a test" />
    </testcase>
  </testsuite>
  <testsuite name="unreadable" tests="1" failures="0" errors="1" skipped="0">
    <testcase name="gone: No such file or directory" classname="unreadable">
      <error type="error" message="gone: No such file or directory" />
    </testcase>
  </testsuite>
</testsuites>
"""
    )
    assert (said.code, said.err) == (2, "fp8tune: gone: No such file or directory\n")


def test_a_stale_baseline_fails(write, fp8tune, report):
    write({"a.toml": TP})
    baseline = ("--baseline", "known.json")
    fp8tune("lint", ".", *baseline, "--update-baseline")
    assert report(".", *baseline).get("failures") == "0"
    write({"a.toml": GOOD})
    root = report(".", *baseline)
    assert [(s.get("name"), s.get("failures")) for s in root] == [
        ("a.toml", "0"),
        ("stale", "1"),
    ]
