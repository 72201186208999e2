"""Comments that are meant to silence a rule: all are found, and no prose is."""

import pytest

from fp8tune.config.mark import is_ignore, mistake
from tests.each import each

WELL = "# fp8tune: ignore[a-rule]"


@each(
    ("comment", "problem"),
    [
        ("# fp8tune: Ignore[a-rule]", "write `ignore` in lower case"),
        ("# fp8tune: ignroe[a-rule]", "the word is `ignore`, not `ignroe`"),
        ("# FP8Tune: ignore[a-rule]", "write `fp8tune` in lower case"),
        ("# fp8tune ignore[a-rule]", "there is no colon after `fp8tune`"),
        ("# fp8tune: ignore [a-rule]", "there must be no space before the bracket"),
    ],
)
@each("words", ["", " until=2030-01-01 -- why"])
def test_a_beginning_that_can_be_mended(comment, problem, words):
    comment = comment.rstrip() + words
    found = mistake(comment)
    assert (found.problem, found.meant) == (problem, WELL + words)
    assert found.beginning + comment[found.end :] == WELL + words


@each(
    "comment",
    [
        "# fp8tune: ignore",
        "# fp8tune: ignore a-rule",
        "# fp8tune: ignore[a-rule] because",
        "# fp8tune: disable=a-rule",
        "# fp8tune: skip(a-rule)",
        "# fp8tune: disable[]",
    ],
)
def test_what_says_nothing_certain(comment):
    reason = "write `# fp8tune: ignore[rule-name] until=YYYY-MM-DD -- reason`"
    assert mistake(comment) == (reason, 0, "")


@pytest.mark.parametrize(
    "comment",
    ["# debugging # fp8tune: ignore[a-rule]", "# see 2; fp8tune: ignore[a-rule]"],
)
def test_one_behind_other_words(comment):
    assert mistake(comment) == ("it must be at the beginning of the comment", 0, "")


@each(
    "comment",
    [
        "# fp8tune: gpu=h100 world-size=16",
        "# fp8tune search: batch_size 8 was faster than 4",
        "# fp8tune ignore comments are listed in the README",
        "# fp8tune: allow for a warmup of 100 steps",
        "# fp8tune estimate[1] says 71 GiB",
        "# fp8tune: region[eu-1]",
        "# silence it with `# fp8tune: ignore[a-rule]`",
        "# as 'fp8tune: ignore[a-rule]' would",
        "# my-fp8tune: ignored",
    ],
)
def test_prose(comment):
    assert not is_ignore(comment)


LINE = "[train]\nbatch_size = 3.9  {}\n"


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("#fp8tune:ignore[value-truncated]", []),
        ("# fp8tune: Ignore[value-truncated]", ["value-truncated", "bad-ignore"]),
        ("# fp8tune disable[value-truncated]", ["value-truncated", "bad-ignore"]),
        ("# fp8tune says 4", ["value-truncated"]),
    ],
)
def test_what_is_found(fired, comment, expected):
    assert fired(LINE.format(comment), gpu="h100", world_size=8) == expected


def test_the_fix_says_what_was_meant(lint):
    found = lint(LINE.format("# fp8tune: disable[value-truncated] -- why"))
    fix = found.diagnostics[-1].fix
    meant = "write `# fp8tune: ignore[value-truncated] -- why`"
    assert (fix.safety, fix.title) == ("safe", meant)
