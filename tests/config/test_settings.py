"""``[tool.fp8tune]``: where it is found, what it says, and what is wrong with it."""

import pytest

from fp8tune.config.settings import BadSettings, Settings, settings_for
from fp8tune.trainers.about import trainers
from tests.each import each

KNOWN = ", ".join(trainers())

ALL = """
[tool.fp8tune]
gpu = "NVIDIA H100"
world-size = 16
gpus-per-node = 4
trainer = "kempnerforge"
select = ["rejected"]
ignore = ["FP8101", "slow"]
rules = ["my/rules", "../shared"]
exclude = ["old/*"]
[tool.fp8tune.severity]
fp8-without-compile = "error"
[tool.fp8tune.per-file-ignores]
"debug*.toml" = ["silent"]
[tool.fp8tune.search]
config = "configs/a.toml"
"""


def test_everything(project):
    root = project({"pyproject.toml": ALL})
    assert settings_for(str(root)) == Settings(
        folder=str(root),
        gpu="h100-sxm",
        world_size=16,
        gpus_per_node=4,
        trainer="kempnerforge",
        select=("rejected",),
        ignore=("FP8101", "slow"),
        severity=(("fp8-without-compile", "error"),),
        per_file_ignores=(("debug*.toml", ("silent",)),),
        rules=(f"{root}/my/rules", f"{root.parent}/shared"),
        exclude=("old/*",),
        search_config=f"{root}/configs/a.toml",
    )


@pytest.mark.parametrize(
    "near",
    [
        "",
        "[project]\nname = 'x'\n",
        "[tool.other]\nx = 'fp8tune'\n",
        "tool = 5 # fp8tune\n",
        "not toml, and nothing of ours",
    ],
)
def test_the_nearest_that_speaks_of_fp8tune_holds(project, near):
    root = project(
        {
            "pyproject.toml": "[tool.fp8tune]\ngpu = 'h200'\n",
            "sub/pyproject.toml": near,
            "sub/deep/a.toml": "",
        }
    )
    found = settings_for(str(root / "sub" / "deep"))
    assert found == Settings(folder=str(root), gpu="h200")


@each(
    ("table", "said"),
    [
        ("gpuu = 'h100'", "has no setting `gpuu`; did you mean `gpu`?"),
        ("gpus-per-node = 0", "`gpus-per-node` is a number of GPUs"),
        ("world-size = -8", "`world-size` is a number of GPUs"),
        ("trainer = 'x'", f"`trainer`: no trainer named 'x'; known: {KNOWN}"),
        (
            "trainer = 'kempnerforg'",
            "`trainer`: no trainer named 'kempnerforg'; did you mean kempnerforge?",
        ),
        ("select = 'rejected'", "`select` is an array of strings"),
        ("rules = {}", "`rules` is an array of strings"),
        ("severity = 'error'", "`severity` maps rules to error, warning, note"),
        (
            "severity = {a = 'warn ing'}",
            "`severity` maps rules to error, warning, note; did you mean `warning`?",
        ),
        ("severity = {a = []}", "`severity` maps rules to error, warning, note"),
        (
            "per-file-ignores = {a = [1]}",
            "`per-file-ignores` maps patterns to arrays of rules",
        ),
    ],
)
def test_bad_settings(project, table, said):
    root = project({"pyproject.toml": f"[tool.fp8tune]\n{table}\n"})
    with pytest.raises(BadSettings) as error:
        settings_for(str(root))
    assert str(error.value) == f"{root}/pyproject.toml: [tool.fp8tune] {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# fp8tune\nx = ", ":2:5: Invalid value at the end of the file"),
        ("# fp8tune\nx = " + "[" * 5000, ":1:1: nested too deeply for the parser"),
        ("[tool]\nfp8tune = 5\n", ": [tool.fp8tune] is a table"),
        ("[[tool.fp8tune]]\n", ": [tool.fp8tune] is a table"),
    ],
)
def test_unusable_file(project, text, said):
    root = project({"pyproject.toml": text})
    with pytest.raises(BadSettings) as error:
        settings_for(str(root))
    assert str(error.value).startswith(f"{root}/pyproject.toml{said}")
