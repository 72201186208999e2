"""Annotations of GitHub Actions, read the way its runner reads them."""

import pytest

from fp8tune.lint.diagnostic import Region
from fp8tune.lint.formats import github
from tests.lint.formats.github_log import LEVELS, command, commands
from tests.lint.formats.samples import SLOW
from tests.sample import GOOD, TP

NAMES = {"file", "line", "endLine", "col", "endColumn", "title"}


@pytest.fixture
def annotations(fp8tune):
    def lint(*arguments):
        said = fp8tune("lint", *arguments, "--output-format", "github")
        return commands(said.out)

    return lint


def test_every_sample_is_read_back(sample):
    said = sample("github")
    assert all(command(line) is None for line in said.err.split("\n"))
    found = commands(said.out)
    told = sample("json").json["diagnostics"]
    ours = [one for one in found if one.properties["title"] != "fp8tune"]
    assert len(ours) == len(told)
    assert len(found) - len(ours) == len(said.err.splitlines())
    for one in found:
        assert one.properties.keys() <= NAMES
    order = [LEVELS.index(one.name) for one in ours]
    assert order == sorted(order)


def test_a_span_of_several_lines_has_no_columns(lint):
    (found,) = lint(TP).diagnostics
    label = found.labels[0]._replace(region=Region(4, 6, 7, 2))
    (one,) = commands(github._annotation(found._replace(labels=(label,))))
    assert one.properties.keys() == NAMES - {"col", "endColumn"}
    assert (one.properties["line"], one.properties["endLine"]) == ("4", "7")


def test_the_worst_come_first(project, annotations):
    note = "[tool.fp8tune.severity]\nslow = 'note'\nhygiene = 'warning'\n"
    ignore = "# fp8tune: ignore\n"
    project({"a.toml": ignore + SLOW, "b.toml": SLOW, "pyproject.toml": note})
    found = annotations("a.toml", "b.toml", "--select", "rejected,slow,bad-ignore")
    assert [(one.name, one.properties["file"]) for one in found] == [
        ("error", "a.toml"),
        ("error", "b.toml"),
        ("warning", "a.toml"),
        ("notice", "a.toml"),
        ("notice", "b.toml"),
    ]


@pytest.mark.parametrize("number", [10, 11])
def test_says_when_github_shows_but_a_part(project, fp8tune, number):
    project({f"{index:02}.toml": TP for index in range(number)})
    said = fp8tune("lint", ".", "--output-format", "github", "-q")
    assert len(commands(said.out)) == number
    assert ("GitHub shows 10 annotations of a level" in said.out) == (number > 10)


def test_a_stale_baseline_is_an_error(project, fp8tune, annotations):
    project({"a.toml": TP})
    baseline = ("--baseline", "known.json")
    fp8tune("lint", ".", *baseline, "--update-baseline")
    assert annotations(".", *baseline) == []
    project({"a.toml": GOOD})
    (one,) = annotations(".", *baseline)
    assert (one.name, one.properties) == ("error", {"title": "fp8tune"})
    assert one.data.startswith("stale: known.json:2: a.toml no longer has fp8-with")


@pytest.mark.parametrize(
    ("variable", "options", "annotated"),
    [
        ("true", (), True),
        ("", (), False),
        ("false", (), False),
        ("true", ("--output-format", "full"), False),
        ("true", ("--output-format", "concise"), False),
        ("", ("--output-format", "github"), True),
    ],
)
def test_chosen_by_itself_under_actions(
    project, fp8tune, monkeypatch, variable, options, annotated
):
    project({"a.toml": TP})
    monkeypatch.setenv("GITHUB_ACTIONS", variable)
    said = fp8tune("lint", "a.toml", *options)
    assert said.out.startswith("::error file=a.toml") == annotated
