"""The command line from outside: help, usage, exit codes, what is checked."""

import pytest

from fp8tune import __version__
from fp8tune.cli import COMMANDS
from tests.each import each
from tests.sample import ERROR, GOOD, WARNING

NOTE = "[tool.fp8tune.severity]\nwarmup-longer-than-run = 'note'\n"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(fp8tune, option):
    said = fp8tune(option)
    assert (said.code, said.err) == (0, "")
    listed = [line.split()[0] for line in said.out.split("Commands:\n")[1].splitlines()]
    assert listed == list(COMMANDS)


@each("command", COMMANDS)
def test_help_of_every_command(fp8tune, command):
    said = fp8tune(command, "-h")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: fp8tune {command} ")


def test_version(fp8tune):
    assert fp8tune("--version") == (0, f"fp8tune, version {__version__}\n", "")


@each(
    ("config", "fail_on", "code"),
    [
        (GOOD, "error", 0),
        (WARNING, "error", 0),
        (WARNING, "warning", 1),
        (WARNING, "note", 1),
        (ERROR, "error", 1),
        (ERROR, "never", 0),
    ],
)
def test_exit_code(fp8tune, project, config, fail_on, code):
    project({"a.toml": config})
    for output_format in ("full", "concise", "json"):
        said = fp8tune(
            "lint", "--fail-on", fail_on, "a.toml", "--output-format", output_format
        )
        assert said.code == code


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 0), ("note", 1)])
def test_exit_code_of_notes(fp8tune, project, fail_on, code):
    project({"a.toml": WARNING, "pyproject.toml": NOTE})
    assert fp8tune("lint", "--fail-on", fail_on, "a.toml").code == code


def test_without_paths_the_folder_is_checked(fp8tune, project):
    project({"a.toml": GOOD, "sub/b.toml": ERROR})
    said = fp8tune("lint", "--output-format", "json")
    assert [d["path"] for d in said.json["diagnostics"]] == ["sub/b.toml"]
    assert (said.code, said.json["files"]) == (1, 2)


@pytest.mark.parametrize("size", ["10000001", "99999999999999999999"])
def test_the_world_size_has_one_limit_everywhere(fp8tune, project, size):
    project({"a.toml": ERROR})
    said = fp8tune("lint", "a.toml", "--world-size", size)
    assert (said.code, said.out) == (2, "")
