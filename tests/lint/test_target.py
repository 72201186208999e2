"""The target: what stays unjudged without it, and who may say it."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.run import run
from tests.lint.results import FP8


@pytest.mark.parametrize(
    ("option", "header", "setting", "origin"),
    [
        ("a10g", "h200", "h200", "--gpu"),
        ("a10g", "", "", "--gpu"),
        ("", "a10g", "h200", "the comment on line 1"),
        ("", "a10g", "", "the comment on line 1"),
        ("", "", "a10g", "pyproject.toml"),
    ],
)
def test_precedence_of_the_gpu(configured, option, header, setting, origin):
    comment = f"# fp8tune: gpu={header}\n" if header else "#\n"
    configured(f"gpu = '{setting}'" if setting else "", comment + FP8)
    result = run(("a.toml",), Options(gpu=option, select=("crash",)))
    assert [d.message for d in result.diagnostics] == [
        "NVIDIA A10G 24 GB (compute capability 8.6) has no FP8 matmul: "
        "the run crashes in its first forward pass "
        f"(GPU from {origin})"
    ]


def test_a_figure_that_the_gpu_table_lacks_is_not_asked_of_the_user(lint):
    text = '[train]\nactivation_checkpointing = "selective"\n'
    assert lint(text, world_size=8).unjudged["out-of-memory"] == "gpu"
    unjudged = lint(text, gpu="h100-pcie", world_size=8).unjudged
    assert unjudged.keys() == {"communication-bound-with-headroom"}
    assert {"gpu", "world_size"}.isdisjoint(unjudged.values())
