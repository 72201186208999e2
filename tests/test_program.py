"""The two ways to run a check: at once where no option is given, else by click."""

import pytest

from tests.sample import ERROR, GOOD, WARNING

CLICK = ("--fail-on", "error")
"""Options that change nothing."""


@pytest.mark.parametrize(
    ("paths", "code"),
    [
        ((".",), 1),
        (("good.toml", "folder"), 0),
        (("error.toml",), 1),
        (("nosuch.toml", "error.toml"), 2),
        (("broken.toml",), 1),
        (("empty",), 0),
        (("-",), 1),
    ],
)
def test_a_check_is_the_same_with_and_without_options(fp8tune, project, paths, code):
    files = {"good.toml": GOOD, "error.toml": ERROR, "folder/warning.toml": WARNING}
    root = project({**files, "broken.toml": "[train\n", "notes.toml": "a = 1\n"})
    (root / "empty").mkdir()
    said = fp8tune("lint", *paths, stdin=ERROR.encode())
    assert said == fp8tune("lint", *CLICK, *paths, stdin=ERROR.encode())
    assert said.code == code


def test_bad_settings_are_told_in_the_same_words(fp8tune, project):
    project({"a.toml": GOOD, "pyproject.toml": "[tool.fp8tune]\ngpuu = 1\n"})
    said = fp8tune("lint", "a.toml")
    assert said == fp8tune("lint", *CLICK, "a.toml")
    assert (said.code, said.err.count("\n")) == (2, 1)
