"""The target: what stays unjudged without it, and who may say it."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.job import Target
from fp8tune.lint.engine import check
from fp8tune.lint.run import run
from tests.each import each
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


@pytest.mark.parametrize(
    ("option", "header", "setting", "origin"),
    [
        (6, 8, 8, "--world-size"),
        (6, 0, 0, "--world-size"),
        (0, 6, 8, "the comment on line 1"),
        (0, 6, 0, "the comment on line 1"),
        (0, 0, 6, "pyproject.toml"),
    ],
)
def test_precedence_of_the_world_size(configured, option, header, setting, origin):
    comment = f"# fp8tune: world-size={header}\n" if header else "#\n"
    configured(
        f"world-size = {setting}" if setting else "",
        comment + "[train]\n[distributed]\ndp_replicate = 4\n",
    )
    (found,) = run(("a.toml",), Options(world_size=option)).diagnostics
    assert found.rule == "world-size-not-divisible"
    assert found.message == (
        "6 GPUs are not a multiple of dp_replicate x tp x pp x cp x ep = 4 "
        f"(world size from {origin})"
    )


WORLD = {"degrees-do-not-match-world-size", "world-size-not-divisible"}


@each(
    ("text", "world_size", "fires", "unjudged"),
    [
        ("[distributed]\ntp = 4\n", 0, [], ["world-size-not-divisible"]),
        ("[distributed]\ntp = 4\n", 8, [], []),
        ("[distributed]\ntp = 4\n", 6, ["world-size-not-divisible"], []),
        ("[distributed]\ntp = 4\n", 2, ["world-size-not-divisible"], []),
        ("[distributed]\ntp = 1\n", 0, [], []),
        ("[distributed]\ndp_shard = 4\n", 0, [], []),
        ("[distributed]\ndp_shard = 4\n", 4, [], []),
        (
            "[distributed]\ndp_shard = 4\n",
            8,
            ["degrees-do-not-match-world-size"],
            [],
        ),
    ],
)
def test_world_size(lint, text, world_size, fires, unjudged):
    report = lint(text, world_size=world_size)
    assert [d.rule for d in report.diagnostics if d.rule in WORLD] == fires
    assert {r: f for r, f in report.unjudged.items() if r in WORLD} == dict.fromkeys(
        unjudged, "world_size"
    )


@pytest.mark.parametrize(
    ("gpu", "fires", "unjudged"),
    [
        ("", [], {"gpu-without-fp8": "gpu"}),
        ("a100-80gb", ["gpu-without-fp8"], {}),
        ("a100", ["gpu-without-fp8"], {}),
        ("h100-sxm", [], {}),
    ],
)
def test_gpu(lint, gpu, fires, unjudged):
    report = lint('[train]\nmixed_precision = "fp8"\n', gpu=gpu)
    mine = {r: f for r, f in report.unjudged.items() if r == "gpu-without-fp8"}
    assert ([d.rule for d in report.diagnostics], mine) == (fires, unjudged)


def test_a_gpu_matters_only_where_a_rule_would_need_it(lint):
    assert "gpu-without-fp8" not in lint("[train]\nseq_len = 2048\n").unjudged


def test_a_figure_that_the_gpu_table_lacks_is_not_asked_of_the_user(lint):
    text = '[train]\nactivation_checkpointing = "selective"\n'
    assert lint(text, world_size=8).unjudged["out-of-memory"] == "gpu"
    unjudged = lint(text, gpu="h100-pcie", world_size=8).unjudged
    assert unjudged.keys() == {"communication-bound-with-headroom"}
    assert {"gpu", "world_size"}.isdisjoint(unjudged.values())


@pytest.mark.parametrize(
    ("header", "target", "origin"),
    [
        ("# fp8tune: gpu=a100-80gb\n", Target(), "the comment on line 1"),
        ("", Target("a100-80gb", 0, "--gpu"), "--gpu"),
        ("", Target("a100-80gb", 0, "pyproject.toml"), "pyproject.toml"),
        (
            "# fp8tune: gpu=h100\n",
            Target("a100-80gb", 0, "--gpu"),
            "--gpu",
        ),
        (
            "# fp8tune: gpu=a100-80gb\n",
            Target("h100-sxm", 0, "pyproject.toml"),
            "the comment on line 1",
        ),
    ],
)
def test_the_origin_of_the_gpu_stands_in_the_message(rules, header, target, origin):
    text = f'{header}[train]\nmixed_precision = "fp8"\n'
    (found,) = check("a.toml", text.encode(), rules, target).diagnostics
    assert found.message == (
        "NVIDIA A100 80 GB (compute capability 8.0) has no FP8 matmul: "
        "the run crashes in its first forward pass "
        f"(GPU from {origin})"
    )


@pytest.mark.parametrize(
    ("target", "origin"),
    [
        (Target("", 6, "", "--world-size"), "--world-size"),
        (Target("", 6, "", "pyproject.toml"), "pyproject.toml"),
    ],
)
def test_the_origin_of_the_world_size_stands_in_the_message(rules, target, origin):
    text = b"[train]\n[distributed]\ndp_replicate = 4\n"
    (found,) = check("a.toml", text, rules, target).diagnostics
    assert found.message.endswith(f" (world size from {origin})")


SELECTIVE = """\
[model]
n_kv_heads = 8
vocab_size = 128256
ffn_dim_multiplier = 1.3
max_seq_len = 4096
[train]
batch_size = 16
seq_len = 4096
activation_checkpointing = "selective"
"""


@pytest.mark.parametrize(
    ("world_size", "ending"),
    [(16, " (GPU from --gpu; world size from --world-size)")],
)
def test_only_what_is_known_has_an_origin(lint, world_size, ending):
    (found,) = lint(SELECTIVE, gpu="h200", world_size=world_size).diagnostics
    assert found.rule == "out-of-memory"
    assert found.message.endswith(ending)
