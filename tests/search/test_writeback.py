"""The tuned config: values and reasons in, every other byte as it was."""

import tomllib

import pytest

from fp8tune.search.writeback import (
    MARK,
    MEASURED,
    CannotWrite,
    Choice,
    explained,
    write_back,
)

CONFIG = """\
# my model
[train]
batch_size = 8  # per GPU
  mixed_precision = "fp8"

[distributed] # all of them
tp = 1
"""


def written(text: str, *choices: Choice) -> str:
    return write_back(text.encode(), choices).decode()


def test_value_and_reasons():
    choice = Choice("train.batch_size", 12, ("8 -> 12: +7.4 %", "trial 14"))
    assert written(CONFIG, choice) == CONFIG.replace(
        "batch_size = 8",
        f"{MARK}8 -> 12: +7.4 %\n{MARK}trial 14\nbatch_size = 12",
    )


def test_a_key_that_is_not_there_is_added_to_its_table():
    choice = Choice("train.activation_checkpointing", "full", ("none -> full",))
    assert written(CONFIG, choice) == CONFIG.replace(
        '"fp8"\n',
        f'"fp8"\n  {MARK}none -> full\n  activation_checkpointing = "full"\n',
    )


def test_a_table_that_is_not_there_is_added():
    text = written(CONFIG, Choice("model.dim", 64, ("smaller",)))
    assert text == CONFIG + f"\n[model]\n{MARK}smaller\ndim = 64\n"


def test_a_second_search_replaces_its_own_comments():
    once = written(CONFIG, Choice("train.batch_size", 12, ("first", "more")))
    twice = written(once, Choice("train.batch_size", 16, ("second",)))
    assert twice == written(CONFIG, Choice("train.batch_size", 16, ("second",)))


def test_a_second_search_leaves_no_comment_of_the_first_elsewhere():
    """Nor its ignores: their figures are of a setting that is no more."""
    ignore = f"# fp8tune: ignore[may-not-fit] -- {MEASURED} 71.0 of 79.1 GiB\n"
    mine = "# fp8tune: ignore[may-not-fit] -- seen to fit\n"
    text = CONFIG.replace("[distributed]", f"{ignore}{mine}[distributed]")
    once = written(
        text,
        Choice("train.batch_size", 12, ("first",)),
        Choice("train.mixed_precision", "bf16", ("fp8 -> bf16",)),
    )
    assert explained(once.encode()) == {"train.batch_size", "train.mixed_precision"}
    twice = written(once, Choice("train.batch_size", 16, ("second",)))
    assert twice == (
        CONFIG.replace("batch_size = 8", f"{MARK}second\nbatch_size = 16")
        .replace('"fp8"', '"bf16"')
        .replace("[distributed]", f"{mine}[distributed]")
    )


def test_a_string_that_looks_like_a_comment_of_ours_stays():
    text = f'[train]\nbatch_size = 8\nnote = """\n{MARK}x\n"""\n'
    assert explained(text.encode()) == set()
    assert f'"""\n{MARK}x\n"""' in written(text, Choice("train.batch_size", 4, ("b",)))


def test_a_value_that_stays_is_not_written_anew():
    text = CONFIG.replace("= 8 ", "= 0x8 ")
    after = written(text, Choice("train.batch_size", 8, ("kept",)))
    assert after == text.replace("batch_size", f"{MARK}kept\nbatch_size")


def test_the_same_again_changes_nothing():
    choices = (
        Choice("train.batch_size", 12, ("a",)),
        Choice("train.compile_model", False, ("b",)),
    )
    once = written(CONFIG, *choices)
    assert written(once, *choices) == once


def test_comments_of_the_user_stay():
    text = "[train]\n# mine\n# mine too\nbatch_size = 8\n"
    assert written(text, Choice("train.batch_size", 4, ("b",))) == (
        f"[train]\n# mine\n# mine too\n{MARK}b\nbatch_size = 4\n"
    )


def test_a_comment_ends_as_its_line_does():
    """In a file whose lines end in both ways."""
    text = CONFIG.replace("\n", "\r\n", 1).encode()
    after = write_back(text, [Choice("train.batch_size", 4, ("b",))])
    assert after == text.replace(b"batch_size = 8", f"{MARK}b\nbatch_size = 4".encode())


def test_crlf_and_bom_stay():
    data = b"\xef\xbb\xbf" + CONFIG.replace("\n", "\r\n").encode()
    after = write_back(data, [Choice("train.batch_size", 4, ("b",))])
    assert after == data.replace(
        b"batch_size = 8", f"{MARK}b\r\nbatch_size = 4".encode()
    )


def test_long_reasons_are_wrapped():
    text = written(CONFIG, Choice("train.batch_size", 4, ("word " * 60,)))
    assert max(map(len, text.splitlines())) <= 100
    assert text.count(MARK) == 4


@pytest.mark.parametrize(
    "odd", ["\0", "\x1b[2J", "\x85", "\u202e", "\ud800", "9" * 10**6]
)
def test_reasons_come_from_records_that_may_hold_anything(odd):
    after = write_back(
        CONFIG.encode(), [Choice("train.batch_size", 4, (f"H200 {odd}x",))]
    )
    assert tomllib.loads(after.decode())["train"]["batch_size"] == 4
    assert MARK in after.decode()
    assert after.decode().replace("\n", "").isprintable()
    assert len(after) < 2500


@pytest.mark.parametrize(
    "text",
    [
        "train.batch_size = 8\n",
        "train = { batch_size = 8, seq_len = 64 }\n",
        "train = {}\n",
        "",
        "[train]",
        "[train]\nbatch_size = 8",
        "[train.x]\ny = 1\n",
    ],
)
def test_any_layout(text):
    after = written(text, Choice("train.batch_size", 4, ("b",)))
    values = tomllib.loads(after)
    assert values["train"].pop("batch_size") == 4
    before = tomllib.loads(text)
    before.setdefault("train", {}).pop("batch_size", None)
    assert values == before
    assert after.count(MARK) == 1


def test_keys_on_one_line_keep_all_reasons():
    text = "train = { batch_size = 8, seq_len = 64 }\n"
    choices = [
        Choice("train.batch_size", 4, ("8 -> 4", "trial 14")),
        Choice("train.seq_len", 32, ("64 -> 32", "trial 14")),
    ]
    after = (
        f"{MARK}train.batch_size: 8 -> 4\n{MARK}train.seq_len: 64 -> 32\n"
        f"{MARK}trial 14\ntrain = {{ batch_size = 4, seq_len = 32 }}\n"
    )
    assert written(text, *choices) == after
    assert written(after, *choices) == after


def test_what_cannot_be_written():
    with pytest.raises(CannotWrite, match=r"train\.x: "):
        written("[train]\n", Choice("train.x", object(), ("b",)))
