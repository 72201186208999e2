"""What a TOML file is: a train config, a fragment of one, or something else."""

import tomllib

import pytest

from fp8tune.trainers.recognise import Kind, may_be_config, recognise
from tests.each import each
from tests.support.verdicts import lint

CONFIG = Kind("kempnerforge", False, "a KempnerForge config")
FRAGMENT = Kind("kempnerforge", True, "a model fragment for KempnerForge")
NOTHING = Kind("", False, "no table that a known trainer reads")
LITTLE = Kind(
    "", False, "most of it is not KempnerForge's (--trainer kempnerforge checks it)"
)
PROJECT = Kind("", False, "a Python project file")
CARGO = Kind("", False, "a Cargo manifest")
TITAN = Kind("torchtitan==0.2.2", False, "a torchtitan config")


@each(
    ("text", "kind"),
    [
        ("", NOTHING),
        ("[train]\nseq_len = 1", CONFIG),
        ("[vlm]\narch = 'mot'\nmot_modalities = []", CONFIG),
        ("[model]\ndim = 1\n[train]\n", CONFIG),
        ("[model]\ndim = 1", FRAGMENT),
        ("[model]", FRAGMENT),
        ("dim = 1\nn_heads = 2", FRAGMENT),
        ("dim = 1\nn_heads = 2\nzzz = 3\nyyy = 4", NOTHING),
        ("[project]\nname = 'x'", PROJECT),
        ("[package]\n[dependencies]", CARGO),
        ("[training]\n[parallelism]\n[model]\n[checkpoint]", TITAN),
        ("[training]\n[activation_checkpoint]\n[optimizer]\nname = 'x'", TITAN),
        ("[train]\na = 1\nb = 2\nc = 3\n[x]\ny = 1", LITTLE),
        ("[trian]\nseq_len = 1\n[model]\ndim = 1\n[optimizer]\nlr = 1", CONFIG),
        ("[train]\nseq_len = 1\nzzz = 1", CONFIG),
        ("[metrics]\nlog_interval = 1\nzzz = 1\nyyy = 1\n[a]\n[b]", LITTLE),
    ],
)
def test_recognise(text, kind):
    assert recognise(tomllib.loads(text)) == kind


@each(
    ("text", "found", "named"),
    [
        ("[train]\nseq_len = 1\na = 1\nb = 1\n[x]\n", LITTLE, CONFIG),
        ("[train]\nseq_len = 1\na = 1\nb = 1\nc = 1\n[x]\n[y]\n", LITTLE, LITTLE),
        ("[train]\na = 1\n[x]\nb = 1\n", LITTLE, CONFIG),
        ("[project]\nname = 'x'\n", PROJECT, PROJECT),
    ],
)
def test_a_file_that_the_user_named_needs_less(text, found, named):
    values = tomllib.loads(text)
    assert recognise(values, explicit=False) == found
    assert recognise(values, explicit=True) == named


@each(
    ("text", "found", "named"),
    [
        ("", False, True),
        ("[train]\nx = \n", False, True),
        ("[train]\nx = \n[model]\n", True, True),
        ("  [ train ]\n[[data.datasets]]\n", True, True),
        ("[project]\n[train]\nx = \n", False, True),
        ("x = [train]\n# [model]\n", False, True),
    ],
)
def test_may_be_config(text, found, named):
    assert may_be_config(text, explicit=False) is found
    assert may_be_config(text, explicit=True) is named


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[trian]\nbatch_size = 4\n[optimiser]\nlr = 1e-4", CONFIG),
        ("[Train]\nbatch_size = 4", CONFIG),
        ("[trian]\nx = 4\n[optimiser]\ny = 1e-4", NOTHING),
        ("[server]\nport = 4\n[client]\nlr = 1", NOTHING),
        ("[trains]\nbatch_size = 4\n[a]\n[b]\n", NOTHING),
    ],
)
def test_misspelt_tables_of_a_file_that_was_named(text, kind):
    assert recognise(tomllib.loads(text), explicit=True) == kind
    assert recognise(tomllib.loads(text), explicit=False) == NOTHING


@pytest.mark.parametrize(
    ("named", "text", "words"),
    [
        (
            "torchtitan",
            "[train]\nbatch_size = 4\n[distributed]\ntp = 1\n",
            "the file looks like a config of KempnerForge: --trainer kempnerforge "
            "checks it as one",
        ),
        (
            "kempnerforge",
            "[training]\nlocal_batch_size = 4\ncompile = true\n",
            "the file looks like a config of torchtitan: --trainer torchtitan==0.1.0 "
            "checks it as one",
        ),
    ],
)
def test_a_file_of_another_trainer_is_told_so(named, text, words):
    found = lint("a.toml", text, named).diagnostics
    (told,) = [d for d in found if d.help.startswith("the file looks like")]
    assert told.rule == "unknown-key"
    assert told.help.startswith(words)


def test_a_json_file_that_a_script_fills_in():
    text = '{\n  "train_batch_size": GB_SIZE,\n  "bf16": {}\n}\n'
    assert (
        lint("ds.json", text, "").skipped
        == "a template: `GB_SIZE` is still to be filled in"
    )
