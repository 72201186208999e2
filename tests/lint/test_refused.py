"""What is said of what the loader refuses or surprises with."""

import pytest


@pytest.mark.parametrize(
    ("text", "message", "help_line"),
    [
        (
            "[train]\nseqlen = 1",
            "[train] has no key `seqlen`",
            "did you mean `seq_len`?",
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
