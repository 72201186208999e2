"""``fp8tune report``, as people run it."""

import sys

import pytest

from fp8tune.extras import INSTALL
from fp8tune.report.html import write_at_end
from fp8tune.search.study import Study
from tests.report.studies import CONFIG, study
from tests.search.tries import SPACE


@pytest.fixture
def folder(project, without_plots):
    project({"a.toml": CONFIG})
    return study(".fp8tune/a-1", output=None)


@pytest.mark.parametrize("name", ["a-1", ".fp8tune/a-1", ".fp8tune/a-1/"])
def test_the_page_lies_in_the_study(folder, fp8tune, tmp_path, name):
    done = fp8tune("report", name)
    assert (done.code, done.err) == (0, "")
    page = tmp_path / ".fp8tune" / "a-1" / "report.html"
    assert done.out.strip().endswith("a-1/report.html")
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_only_the_page_is_written(folder, fp8tune, tmp_path):
    before = {path.name for path in (tmp_path / folder).iterdir()}
    around = {path.name for path in tmp_path.iterdir()}
    assert fp8tune("report", "a-1").code == 0
    assert {path.name for path in tmp_path.iterdir()} == around
    after = {path.name for path in (tmp_path / folder).iterdir()}
    assert after == {*before, "report.html"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none"], ".fp8tune; there are a-1; give the path of one"),
        ([".fp8tune"], "study.journal: no study found here; a study in a database"),
        ([], "STUDY"),
    ],
)
def test_what_cannot_be_reported(folder, fp8tune, tmp_path, arguments, said):
    before = files(tmp_path)
    done = fp8tune("report", *arguments)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert done.err.count("\n") == 1
    assert files(tmp_path) == before


def files(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


ANSWER = {"knobs": None, "seconds": 1.0, "objective": "tokens-per-second"}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {**ANSWER, "tried": 3},
        {**ANSWER, "tried": [{"knobs": {}}]},
        {**ANSWER, "speed_changed": None, "tried": [], "findings": [{"code": 1}]},
    ],
)
def test_an_answer_that_no_search_has_stored_is_refused(project, fp8tune, answer):
    project()
    folder = study(".fp8tune/a-1", output="")
    Study(SPACE, folder).note(output="", answer=answer)
    done = fp8tune("report", "a-1")
    assert (done.code, done.out) == (2, "")
    assert "a-1: no answer of this version (" in done.err
    assert "no answer of this version" in fp8tune("studies").err


def test_a_link_in_a_study_is_replaced_and_not_followed(folder, fp8tune, tmp_path):
    """The folder may have come from somebody else."""
    page, mine = tmp_path / folder / "report.html", tmp_path / "mine.txt"
    mine.write_text("mine")
    page.symlink_to(mine)
    assert fp8tune("report", "a-1").code == 0
    assert (mine.read_text(), page.is_symlink()) == ("mine", False)
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_without_a_library(folder, fp8tune, monkeypatch, library):
    for name in [n for n in sys.modules if n.startswith("fp8tune.report.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    done = fp8tune("report", "a-1")
    assert done.code == 2
    assert done.err == f"fp8tune: report needs {library}: {INSTALL}\n"


def test_a_search_says_why_its_page_is_not_written(folder, capsys, tmp_path):
    page = tmp_path / folder / "report.html"
    page.mkdir()
    write_at_end(str(page.parent), sys.stdout)
    assert capsys.readouterr() == ("", f"note: no report: {page}: Is a directory\n")
