"""What a search's values make wrong in the user's own words."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.settings import settings_for
from fp8tune.search.linting import aftermath
from fp8tune.search.writeback import Choice, write_back

CONFIG = """\
# 7B on 8 GPUs, full AC
[train]
batch_size = 2  # 2 sequences per GPU
seq_len = 4096
grad_accum_steps = 4
mixed_precision = "fp8"
compile_model = true
activation_checkpointing = "full"
[scheduler]
warmup_steps = 10
"""


@pytest.fixture(autouse=True)
def _fresh():
    settings_for.cache_clear()


def notes(project, *choices, config=CONFIG, files=None):
    project(files or {})
    before = config.encode()
    after = write_back(before, [Choice(*choice, "why") for choice in choices])
    return list(aftermath("a.toml", before, after, Target("h100-sxm", 8)))


def test_nothing_becomes_wrong(project):
    assert notes(project, ("train.grad_accum_steps", 2)) == []


def test_a_comment_that_is_no_longer_true_is_pointed_out(project):
    said = notes(project, ("train.activation_checkpointing", "selective"))
    assert said == [
        "a.toml:1: the comment says `full AC`, but "
        '`train.activation_checkpointing = "selective"` [wrong-ac-in-comment]'
    ]


def test_what_was_wrong_before_is_not_our_doing(project):
    config = CONFIG.replace("# 7B on 8 GPUs, full AC", "# 7B, selective AC")
    assert notes(project, ("train.batch_size", 2), config=config) == []


def test_a_finding_on_the_changed_line_is_not_new(project):
    config = CONFIG.replace("= 4\nmixed", "= 4  # 8 micro-batches\nmixed")
    assert notes(project, ("train.grad_accum_steps", 2), config=config) == []


def test_what_the_project_ignores_is_not_told(project):
    settings = '[tool.fp8tune]\nignore = ["wrong-ac-in-comment"]\n'
    change = ("train.activation_checkpointing", "selective")
    assert notes(project, change, files={"pyproject.toml": settings}) == []


def test_an_ignore_that_is_not_needed_any_more(project):
    line = "compile_model = false  # fp8tune: ignore[fp8-without-compile] -- slow\n"
    config = CONFIG.replace("compile_model = true\n", line)
    said = notes(project, ("train.compile_model", True), config=config)
    assert len(said) == 1
    assert "fp8-without-compile" in said[0]
