"""The header comment: which GPU and how many a config is for."""

import pytest

from fp8tune.config.directive import (
    Directive,
    read_directive,
)
from fp8tune.job import Target
from tests.each import each


@each(
    ("text", "gpu", "world_size"),
    [
        ("", "", 0),
        ("# fp8tune: gpu=h100 world-size=16\n", "h100-sxm", 16),
        ("  #\tfp8tune:\tworld-size=8\t\n", "", 8),
        ("# fp8tune: world-size=8\r\n[train]\r\n", "", 8),
        ("x = 1\n# fp8tune: gpu=h200\n", "h200", 0),
        ("# fp8tune: gpu=h200\n# fp8tune: world-size=4\n", "h200", 4),
        ("x = 1 # fp8tune: gpu=h200\n", "", 0),
        ("# not fp8tune: gpu=h200\n", "", 0),
        ("# fp8tune: ignore[some-rule]\n", "", 0),
        ("# fp8tune: world-size=00000016\n", "", 16),
    ],
)
def test_read(text, gpu, world_size):
    found = read_directive(text)
    assert (found.gpu, found.world_size, found.problems) == (gpu, world_size, ())


@each(
    ("words", "problems"),
    [
        ("gpu=h1000", ("no GPU named 'h1000'; did you mean h100?",)),
        ("gpu=", ("gpu= has no value (write it without a space)",)),
        ("world-size=0", ("world-size=0 is not a number of GPUs",)),
        ("world-size=-1", ("world-size=-1 is not a number of GPUs",)),
        ("world-size=99999999", ("world-size=99999999 is not a number of GPUs",)),
        ("world-size=\u0664", ("world-size=\u0664 is not a number of GPUs",)),
        ("world_size=8", ("unknown name 'world_size'; did you mean world-size=?",)),
        ("hello", ("unknown name 'hello'",)),
        ("gpu=" + "h" * 200, ("it is too long",)),
    ],
)
def test_problems(words, problems):
    found = read_directive(f"# fp8tune: {words}\n")
    assert (found.gpu, found.world_size) == ("", 0)
    assert len(found.problems) == len(problems)
    for (said, span), wanted in zip(found.problems, problems, strict=True):
        assert said.startswith(wanted)
        assert span == (0, len(f"# fp8tune: {words}".rstrip()))


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("gpu=h200", "gpu=h100 world-size=8", "gpu=h200"),
        ("gpu=h200 world-size=8", "world-size=16 gpu=h200", "world-size=8"),
    ],
)
def test_of_two_that_disagree_the_last_holds_and_is_a_problem(first, second, said):
    found = read_directive(f"# fp8tune: {first}\n# fp8tune: {second}\n")
    last = read_directive(f"\n# fp8tune: {second}\n")
    start = len(f"# fp8tune: {first}\n")
    span = (start, start + len(f"# fp8tune: {second}"))
    problem = f"line 1 says {said}, which this comment overrides"
    assert found == last._replace(problems=((problem, span),))


@pytest.mark.parametrize("table", ["[train]\n", "  [train]\n", "[[data.datasets]]\n"])
def test_a_comment_below_the_first_table_is_not_read(table):
    found = read_directive(f"{table}# fp8tune: gpu=h200\n")
    span = (len(table), len(table) + 19)
    assert found == Directive(problems=(("it must be above the first table", span),))


@each(
    "comment",
    [
        "# fp8tune gpu=h100",
        "#fp8tune gpu=h100 world-size=16",
        "# fp8tune  world_size = 16",
        "# fp8tune gpus=h100",
    ],
)
@each("before", ["", "[train]\n"])
def test_a_comment_without_its_colon_is_a_problem(comment, before):
    found = read_directive(f"{before}{comment}\n[model]\n")
    span = (len(before), len(before) + len(comment))
    problem = ("there is no colon after fp8tune", span)
    assert found == Directive(problems=(problem,))


@each(
    "comment",
    [
        "# FP8Tune: what this file is for",
        "# fp8tune finds nothing here",
        "# checked with fp8tune gpu=h100",
        "x = 1 # fp8tune gpu=h100",
    ],
)
def test_prose_about_fp8tune_is_no_comment_for_it(comment):
    assert read_directive(f"{comment}\n[train]\n") == Directive()


def test_good_words_beside_a_bad_one_hold():
    found = read_directive("\n# fp8tune: gpu=h200 gpus=8 world-size=8\n[train]\n")
    assert found == Directive(
        "h200",
        8,
        2,
        2,
        (("unknown name 'gpus'; did you mean gpu=?", (1, 40)),),
    )


@pytest.mark.parametrize(
    ("target", "completed"),
    [
        (Target(), Target("h200", 8, "the comment on line 3", "the comment on line 3")),
        (
            Target("a10g", 2, "--gpu", "--world-size"),
            Target("a10g", 2, "--gpu", "--world-size"),
        ),
        (
            Target("a10g", 2, "pyproject.toml", "pyproject.toml"),
            Target("h200", 8, "the comment on line 3", "the comment on line 3"),
        ),
        (
            Target("a10g", 2, "--gpu", "pyproject.toml"),
            Target("a10g", 8, "--gpu", "the comment on line 3"),
        ),
    ],
)
def test_complete(target, completed):
    assert Directive("h200", 8, 3, 3).complete(target) == completed


def test_gpus_per_node():
    found = read_directive("# fp8tune: gpu=h200 gpus-per-node=4\n[train]\n")
    assert found.complete(Target()).gpus_per_node == 4
    assert found.complete(Target(gpus_per_node=8)).gpus_per_node == 8
    (problem,) = read_directive("# fp8tune: gpus-per-node=0\n[train]\n").problems
    assert problem[0] == "gpus-per-node=0 is not a number of GPUs"
