"""How many GPUs a title names, and what contradicts it."""

from fp8tune.formats import parse
from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.lint.title import gpus_of, titled
from tests.each import each
from tests.sample import LLAMA_8B

CONFIG = f"""\
{LLAMA_8B}max_seq_len = 4096
[train]
batch_size = 8
seq_len = 4096
max_steps = 50
[scheduler]
warmup_steps = 10
"""
SHARDED = f"{CONFIG}[distributed]\ndp_shard = 16\n"
EIGHT = Target(world_size=8, world_size_origin="--world-size")
PROJECT = Target(world_size=16, world_size_origin="pyproject.toml")


def named(text):
    """The GPUs of a title, and the words that name them."""
    document = parse(text.encode(), "a.toml")
    title = titled(document)
    return title and (title.gpus, document.text[slice(*title.span)])


@each(
    ("title", "expected"),
    [
        ("Llama - 12 GPUs (3 nodes x 4), TP=4", (12, "12 GPUs")),
        ("a 24-GPU run", (24, "24-GPU")),
        ("on 16 H100s", (16, "16 H100s")),
        ("2 nodes of 8 GPUs", (16, "2 nodes of 8 GPUs")),
        ("8-GPU test: saturate 2 nodes \u00d7 4 H200 141GB", (8, "8-GPU")),
        ("Llama 7B in FP8\n# on 16 GPUs.", (16, "16 GPUs")),
        ("fp8tune: gpu=h100\n#\n# Llama on 16 GPUs", (16, "16 GPUs")),
        ("Llama. Later on 64 GPUs", None),
        ("Llama\n#\n# on 64 GPUs", None),
        ("4-8 GPUs, 8+ GPUs, up to 16 GPUs, 1, 2, 4, 32 GPUs", None),
        ("8 GPUs per node, 8 GPUs/node, 8 GPUs each", None),
        ("141 GB GPUs, 80GB H100, Llama 2 H100", None),
        ("16 GPUs, 32 GPUs", None),
        ("16 GPUs instead of 32", None),
        ("\u0664 GPUs", None),
        ("9" * 300 + " GPUs", None),
    ],
)
def test_a_title_names_gpus_or_does_not(title, expected):
    assert named(f"# {title}\n[train]\n") == expected


def test_only_a_comment_above_all_keys_is_a_title():
    assert named("[train]\n# 8 GPUs\n") is None
    assert named('#!/bin/bash\n#SBATCH -N 2\n# on 8 GPUs\n[a]\nx = "# 9 GPUs"\n')
    for path, text in (("a.yaml", "# 8 GPUs\na: 1\n"), ("a.toml", "a = 1\n")):
        gpus = gpus_of(parse(text.encode(), path))
        assert gpus == ((8, 1) if path == "a.yaml" else (0, 0))


@each(
    ("title", "config", "target", "reason"),
    [
        ("16 GPUs", SHARDED, Target(), ""),
        ("8 GPUs", SHARDED, Target(), "the file says dp_shard 16 = 16 GPUs"),
        (
            "8 GPUs",
            SHARDED,
            Target(world_size=8),
            "the file says dp_shard 16 = 16 GPUs",
        ),
        ("16 GPUs", CONFIG, PROJECT, ""),
        ("64 GPUs", CONFIG, PROJECT, "pyproject.toml says `world-size = 16`"),
        ("64 GPUs", CONFIG, EIGHT, ""),
        (
            "64 GPUs",
            f"{CONFIG}[distributed]\ntp = 3\n",
            PROJECT,
            "the file says tp 3 = 3 GPUs, which does not divide it",
        ),
        ("64 GPUs", f"{CONFIG}[distributed]\ntp = [4]\ncp = {10**12}\n", PROJECT, ""),
        ("fp8tune: world-size=16\n#\n# 16 GPUs", CONFIG, Target(), ""),
        (
            "fp8tune: world-size=8\n#\n# 16 GPUs",
            CONFIG,
            Target(),
            "the file says `world-size=8` on line 1",
        ),
    ],
)
def test_a_title_against_the_file_and_the_project(rules, title, config, target, reason):
    text = f"# {title}\n{config}".encode()
    report = check("a.toml", text, rules, target, only="kempnerforge")
    gpus = title.rpartition("# ")[2]
    wrong = [d.message for d in report.diagnostics if d.rule == "wrong-gpus-in-comment"]
    assert wrong == ([f"the title says `{gpus}`, but {reason}"] if reason else [])


def test_overrides_do_not_make_a_title_wrong(rules):
    text = f"# on 16 GPUs\n{SHARDED}".encode()
    overrides = ("--distributed.dp_shard=8",)
    report = check("a.toml", text, rules, Target(), overrides=overrides)
    assert [d for d in report.diagnostics if "comment" in d.rule] == []
