"""``fp8tune explain`` from outside."""

import pytest

from tests.conftest import REPOSITORY
from tests.sample import ERROR


@pytest.mark.parametrize("path", ["a.toml", "-"])
def test_explain_a_config(fp8tune, project, path):
    project({"a.toml": ERROR})
    said = fp8tune("explain", "FP8101", path, stdin=ERROR.encode())
    assert (said.code, said.err) == (0, "")
    assert f"\n\nIn {path}: fires\n  line 4: FP8 does not work with" in said.out
    said = fp8tune(
        *("explain", "world_size", path, "--world-size", "8"),
        *("--gpu", "h100", "--output-format", "json"),
        stdin=ERROR.encode(),
    )
    derivation = said.json["derivation"]
    assert (derivation["value"], derivation["origin"]) == (8, "--world-size")


def test_explain_a_value_briefly_or_whole(fp8tune, project):
    project({"a.toml": ERROR})
    command = ("explain", "memory.peak_gib", "a.toml", "--gpu", "h100")
    brief, whole = fp8tune(*command), fp8tune(*command, "--all")
    assert (brief.code, whole.code) == (0, 0)
    assert brief.out.endswith(
        "--all derives each value down to the lines of the config.\n"
    )
    assert 3 * brief.out.count("\n") < whole.out.count("\n")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[train]\nx = \n", "a.toml:2:5: Invalid value"),
        ("[tool.x]\n", "a.toml: a Python project file"),
        (
            "# " + "x" * (1 << 20),
            "a.toml: a file of more than 1 MiB is not a train config",
        ),
    ],
)
def test_explain_what_is_no_config(fp8tune, project, config, said):
    project({"a.toml": config})
    assert fp8tune("explain", "tp", "a.toml") == (2, "", f"fp8tune: {said}\n")


def test_without_a_config_the_project_names_the_trainer(fp8tune, project):
    ours = (REPOSITORY / "docs/own_trainer/ours.toml").read_text(encoding="utf-8")
    settings = '[tool.fp8tune]\ntrainer = "ours.toml"\n'
    project({"ours.toml": ours, "pyproject.toml": settings})
    for name in ("train.context", "seq_len"):
        assert "(Ours)" in fp8tune("explain", name).out
    assert "(Ours)" not in fp8tune("explain", "seq_len", "--trainer", "torchtitan").out
    project({"pyproject.toml": '[tool.fp8tune]\ntrainer = "theirs"\n'})
    found = fp8tune("explain", "seq_len")
    assert (found.code, "no trainer named 'theirs'" in found.err) == (2, True)
