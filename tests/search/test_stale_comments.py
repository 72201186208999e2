"""Comments that speak of a value which the search has changed."""

import pytest

from fp8tune.formats import parse
from fp8tune.search.write.comments import ChangedKey, stale_comments

BATCH = ChangedKey("train.batch_size", 2, 8)
AC = ChangedKey("train.activation_checkpointing", "full", "none")
CHANGES = (BATCH, AC)
FILE = """\
# {header}
[train]
# fp8tune search: 2 -> 8: micro-batch 2 was slower
batch_size = 8  # {behind}
seq_len = 4096  # {elsewhere}
grad_accum_steps = 1
compile_model = false
activation_checkpointing = "none"
"""


def lines(header="", behind="", elsewhere=""):
    text = FILE.format(header=header, behind=behind, elsewhere=elsewhere)
    return list(stale_comments("a.toml", parse(text.encode(), "a.toml"), CHANGES))


@pytest.mark.parametrize(
    ("said", "change"),
    [
        ("batch_size = 2 is a slow start", "`train.batch_size` was 2, is 8"),
        (
            "activation_checkpointing=full fits",
            "`train.activation_checkpointing` was full, is none",
        ),
    ],
)
def test_a_comment_that_names_a_changed_key(said, change):
    told = f"the comment may no longer hold: {change}"
    assert lines(header=said) == [f"a.toml:1: {told}"]
    assert lines(elsewhere=said) == [f"a.toml:5: {told}"]


def test_a_comment_behind_a_changed_key_with_its_old_value():
    assert lines(behind="2 fit") == [
        "a.toml:4: the comment may no longer hold: `train.batch_size` was 2, is 8"
    ]


@pytest.mark.parametrize(
    "said",
    [
        "Llama-3 7B on 2 GPUs",
        "batch_size = 24",
        "my_batch_size = 2",
        "full attention",
        "fp8tune: ignore[slow] -- batch 2",
    ],
)
def test_other_comments_are_left_alone(said):
    assert lines(header=said) == []


@pytest.mark.parametrize("said", ["24 GB", "v2", "2.5 GB", "12", "a2a"])
def test_a_number_that_is_another(said):
    assert lines(behind=said) == []
