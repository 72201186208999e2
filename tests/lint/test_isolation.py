"""An error of our own in one file: said in one line, and the others are checked."""

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from fp8tune.lint import engine
from tests.sample import TP

FORMATS = {
    **dict.fromkeys(("full", "concise", "github"), str),
    **dict.fromkeys(("json", "sarif", "gitlab"), json.loads),
    "junit": ElementTree.fromstring,
}


def broken(monkeypatch, error):
    """Lint raises an error for ``b.toml``, in its rule on tensor parallelism."""
    origin = engine._Case._origin

    def raises(case, rule):
        if case.path == "b.toml" and rule.name == "fp8-with-tensor-parallel":
            raise error
        return origin(case, rule)

    monkeypatch.setattr(engine._Case, "_origin", raises)


@pytest.mark.parametrize("many", [False, True], ids=["one process", "several"])
@pytest.mark.parametrize("output_format", FORMATS)
def test_a_bug_in_a_rule_stops_no_other_file(
    project, fp8tune, monkeypatch, output_format, many
):
    folder = project({"a.toml": TP, "b.toml": TP, "c.toml": TP})
    broken(monkeypatch, OverflowError("too large"))
    if many:
        monkeypatch.setattr("fp8tune.lint.run.SHARE", 1)
        monkeypatch.setattr("fp8tune.lint.run.FIRST", 1)
        monkeypatch.setattr("fp8tune.lint.run.cores", lambda: 2)
    ended = fp8tune("lint", ".", "--unsafe-fixes", "--output-format", output_format)
    assert ended.code == 2
    assert re.sub(r":\d+:", ":N:", ended.err.splitlines()[0]) == (
        "fp8tune: b.toml: OverflowError in rule fp8-with-tensor-parallel, "
        "fp8tune.lint.engine:N: a bug in fp8tune; please report this line with the file"
    )
    fixed = [
        name for name in "abc" if "tp = 1" in (folder / f"{name}.toml").read_text()
    ]
    assert fixed == ["a", "c"]
    FORMATS[output_format](ended.out)


def test_an_interrupt_is_no_bug(project, fp8tune, monkeypatch):
    project({"a.toml": TP, "b.toml": TP})
    broken(monkeypatch, KeyboardInterrupt())
    ended = fp8tune("lint", ".")
    assert (ended.code, ended.out, ended.err.strip()) == (
        130,
        "",
        "fp8tune: interrupted",
    )


def test_a_bug_in_the_output_is_one_line(project, fp8tune, monkeypatch):
    project({"a.toml": TP})
    monkeypatch.setattr("fp8tune.lint.show.plain", None)
    ended = fp8tune("lint", ".", "--output-format", "concise")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert ended.err.startswith("fp8tune: TypeError in fp8tune.lint.show:")
