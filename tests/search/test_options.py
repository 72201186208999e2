"""Which config is meant where none is named."""

import pytest

from fp8tune.search import CannotSearch
from fp8tune.search.options import SearchOptions, find_config

CONFIG = "[train]\nbatch_size = 1\n[scheduler]\nwarmup_steps = 10\n"
FRAGMENT = "dim = 64\nn_layers = 2\nn_heads = 4\n"
NAMED = '[tool.fp8tune.search]\nconfig = "configs/a.toml"\n'


@pytest.mark.parametrize(
    "files",
    [
        {"a.toml": CONFIG},
        {"a.toml": CONFIG, "a.tuned.toml": CONFIG, "b.toml": "[tool.x]\n"},
        {"a.toml": CONFIG, "m.toml": FRAGMENT, "broken.toml": "[train\n"},
        {"a.toml": CONFIG, ".hidden/b.toml": CONFIG},
        {
            "a.toml": CONFIG,
            "b.toml": "[tool.x]\n",
            "pyproject.toml": '[tool.fp8tune]\ntrainer = "kempnerforge"\n',
        },
        {
            "a.toml": CONFIG,
            "old/b.toml": CONFIG,
            "pyproject.toml": '[tool.fp8tune]\nexclude = ["old"]\n',
        },
    ],
)
def test_the_only_one(project, files):
    project(files)
    assert find_config() == "a.toml"


def test_the_named_one(project, monkeypatch):
    root = project(
        {"pyproject.toml": NAMED, "configs/a.toml": CONFIG, "b.toml": CONFIG}
    )
    assert find_config() == "configs/a.toml"
    monkeypatch.chdir(root / "configs")
    assert find_config() == "a.toml"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "no train config here: fp8tune search CONFIG --budget 2h"),
        ({"m.toml": FRAGMENT}, "no train config here"),
        (
            {"b/a.toml": CONFIG, "a.toml": CONFIG},
            "2 train configs here, name one: a.toml, b/a.toml",
        ),
        (
            {"a.toml": CONFIG, "pyproject.toml": NAMED},
            r"^configs/a.toml: no such file; \[tool.fp8tune.search\] of pyproject.toml",
        ),
    ],
)
def test_none_or_several(project, files, said):
    project(files)
    with pytest.raises(CannotSearch, match=said):
        find_config()


def test_a_list_stays_short(project):
    project({f"{number:03}.toml": CONFIG for number in range(50)})
    with pytest.raises(CannotSearch, match=r"019.toml, \.\.\.$"):
        find_config()


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("search = 1", "`search` is a table"),
        ("search.config = 1", "`search.config` is the name of a file"),
        ("search.budget = '1h'", "search has no setting `budget`"),
    ],
)
def test_settings_that_cannot_be_used(project, fp8tune, table, said):
    project({"pyproject.toml": f"[tool.fp8tune]\n{table}\n", "a.toml": CONFIG})
    for command in (("search", "--budget", "1h"), ("lint", "a.toml")):
        done = fp8tune(*command)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert said in done.err


def test_the_options_that_make_the_same_search_again():
    """Without what has its default or is asked for once."""
    options = SearchOptions(
        "a.toml", "2h", gpu="h100", allow=("warmup",), in_place=True, export="t.jsonl"
    )
    assert options.kept == {
        "budget": "2h",
        "gpu": "h100",
        "allow": ("warmup",),
        "in_place": True,
    }
