"""What is said of what the loader refuses or surprises with."""

import pytest

from tests.each import each


@each(
    ("text", "found"),
    [
        ("n_heads = 32", []),
        ("n_heads = 16", ["kv-heads-omitted"]),
        ("n_heads = 20\ndim = 2560", ["kv-heads-omitted"]),
        ("n_heads = 64", ["kv-heads-default"]),
        ("n_heads = 64\nn_kv_heads = 64", []),
        ("n_heads = 64\nn_kv_heads = 32", []),
        ("n_heads = 64\nn_kv_heads = 24", ["kv-heads-do-not-divide-heads"]),
        ("n_kv_heads = 64", ["kv-heads-do-not-divide-heads"]),
        ("n_kv_heads = 0", ["value-out-of-range"]),
    ],
)
def test_kv_heads(fired, text, found):
    assert fired(f"[model]\n{text}\n") == found


@each(
    ("text", "found"),
    [
        ('[train]\nbatch_size = "8"', []),
        ("[train]\nbatch_size = 3.9", []),
        ("[train]\nbatch_size = true", []),
        ("[train]\nmax_steps = 1e5", []),
        ("[train]\nseed = [1]", []),
        ("[train]\nbatch_size = [1]", ["wrong-type"]),
        ('[train]\nbatch_size = "8x"', ["value-not-convertible"]),
        ('[train]\ncompile_model = "off"\nmixed_precision = "fp8"', "slow"),
        ('[train]\ncompile_model = "yes"\nmixed_precision = "fp8"', []),
        ("train = 5", ["section-not-a-table"]),
        ("optimizer = true", []),
        ("vlm = 5", ["vlm-without-vision-encoder"]),
        ("vlm = 5\n[vision_encoder]", []),
        ("[train]\n[[distributed]]\ntp = 2", ["section-not-a-table"]),
        ("dim = 4096\nn_heads = 32\nn_kv_heads = 8", ["missing-header"]),
    ],
)
def test_what_surprises_in_the_loader(lint, text, found):
    """Only what the trainer refuses, and what it takes for another compile."""
    wanted = ["fp8-without-compile"] if found == "slow" else found
    report = lint(f"{text}\n")
    kinds = ("rejected", "slow")
    assert [d.rule for d in report.diagnostics if d.category in kinds] == wanted


@pytest.mark.parametrize(
    ("text", "message", "help_line"),
    [
        (
            "[train]\nseqlen = 1",
            "[train] has no key `seqlen`",
            "did you mean `seq_len`?",
        ),
        (
            "[train]\ntp = 1",
            "[train] has no key `tp`",
            "did you mean `distributed.tp`?",
        ),
        (
            "[trian]\nseq_len = 1",
            "a KempnerForge config has no key `trian`",
            "did you mean [train]?",
        ),
        (
            "[vision_encoder]\n[vlm]\nmot_modalities = []",
            "[vlm] has no key `mot_modalities`",
            'did you mean `arch = "mot"`, which has it?',
        ),
        (
            "dim = 4096\nn_heads = 32",
            "keys of [model] are at the top of the file, above any section: dim, "
            "n_heads",
            "write [model] above them",
        ),
    ],
)
def test_did_you_mean(lint, text, message, help_line):
    (found,) = (d for d in lint(f"{text}\n").diagnostics if d.category == "rejected")
    assert (found.message, found.help) == (message, help_line)


def test_a_value_is_shown_as_toml_writes_it(lint):
    text = """\
[train]
batch_size = 0
seed = "x"
mixed_precision = "fp7"
max_steps = { a = [1, "b"] }
"""
    assert [found.message for found in lint(text).diagnostics] == [
        "`train.batch_size = 0` is out of range: it must be above 0",
        '`train.seed = "x"` cannot be read as a whole number',
        '`train.mixed_precision = "fp7"` is not a precision of this trainer; it '
        'accepts exactly ["bf16", "fp16", "fp32", "fp8"]',
        '`train.max_steps = { a = [1, "b"] }` must be a whole number',
    ]
