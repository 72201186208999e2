"""Rules on two files: what one config says is wrong only because of another one."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.packs import read_rule
from fp8tune.lint.run import run

MODEL = "checkpoint-folder-of-another-model"


def config(folder, model):
    compiled = "[train]\ncompile_model = true\n"
    return f'[model]\n{model}\n{compiled}[checkpoint]\ndir = "{folder}"\n'


SMALL, LARGE = "n_layers = 8", "n_layers = 16"


@pytest.fixture
def findings(project):
    """What ``run`` finds in files: path, rule and the other file that is named."""

    def lint(files, **options):
        project(files)
        found = run((".",), Options(**options)).diagnostics
        return [(d.path, d.rule, d.message.rpartition(" (")[2][:-1]) for d in found]

    return lint


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"a.toml": config("runs", SMALL), "b.toml": config("runs/", LARGE)},
            [("a.toml", MODEL, "b.toml"), ("b.toml", MODEL, "a.toml")],
            id="two models",
        ),
        pytest.param(
            {"a.toml": config("runs", SMALL), "b.toml": config("runs", SMALL)},
            [],
            id="the same run",
        ),
        pytest.param(
            {"x/a.toml": config("/runs", SMALL), "y/b.toml": config("/runs", LARGE)},
            [("x/a.toml", MODEL, "y/b.toml"), ("y/b.toml", MODEL, "x/a.toml")],
            id="absolute",
        ),
        pytest.param(
            {
                "a.toml": config("runs", SMALL).partition("[checkpoint]")[0],
                "b.toml": config("checkpoints", LARGE),
            },
            [],
            id="the default folder",
        ),
    ],
)
def test_configs_that_share_a_checkpoint_folder(findings, files, expected):
    assert findings(files) == expected


def test_an_ignore_comment_holds_it_back_and_is_used_in_any_case(findings):
    ignored = config("runs", SMALL).replace(
        "dir =", f"# fp8tune: ignore[{MODEL}] -- one is never run\ndir ="
    )
    assert findings({"a.toml": ignored}) == []
    files = {"a.toml": ignored, "b.toml": config("runs", LARGE)}
    assert findings(files) == [("b.toml", MODEL, "a.toml")]


def test_a_fix_of_another_finding_is_written_once(findings, tmp_path):
    files = {
        "a.toml": config("runs", f'{SMALL}\nactivation = "SiLU"'),
        "b.toml": config("runs", LARGE),
    }
    expected = [("a.toml", MODEL, "b.toml"), ("b.toml", MODEL, "a.toml")]
    assert findings(files, fix=True) == expected
    assert 'activation = "silu"' in (tmp_path / "a.toml").read_text()


def test_a_word_of_a_fact_is_compared_as_any_value(a_rule, looks, tmp_path):
    """Facts have words of a class of their own."""
    path = tmp_path / "a-rule.toml"
    a_rule(when="tp == 1")
    text = path.read_text().replace(
        "when =", "same = 'tp'\ndiffers = 'memory.peak_at'\nwhen ="
    )
    path.write_text(text)
    look = looks(read_rule(str(path), "silent"), world_size=1)
    configs = (b"[train]\nbatch_size = 64\n", b"[train]\nbatch_size = 1\n")
    told = [look(config).compared["a-rule"] for config in configs]
    assert [same for same, _ in told] == ["1", "1"]
    assert told[0] != told[1], "the peak stands at the loss, and in the step"
