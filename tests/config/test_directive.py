"""The header comment: which GPU and how many a config is for."""

import pytest

from fp8tune.config.directive import (
    MAX_WORLD_SIZE,
    BadTarget,
    Directive,
    asked,
    parse_gpu,
    parse_world_size,
    read_directive,
)
from fp8tune.job import Target
from tests.each import each


@each(
    ("text", "gpu", "world_size"),
    [
        ("", "", 0),
        ("[train]\n", "", 0),
        ("# fp8tune: gpu=h100 world-size=16\n", "h100-sxm", 16),
        ("# fp8tune: gpu=h100 world-size=16", "h100-sxm", 16),
        ("#fp8tune:gpu=h200\n", "h200", 0),
        ("  #\tfp8tune:\tworld-size=8\t\n", "", 8),
        ("# fp8tune: world-size=8\r\n[train]\r\n", "", 8),
        ("# about\n\n# fp8tune: gpu=h200\nx = 1\n[train]\n", "h200", 0),
        ("x = 1\n# fp8tune: gpu=h200\n", "h200", 0),
        ("# fp8tune: gpu=h200\n# fp8tune: world-size=4\n", "h200", 4),
        ("# fp8tune: gpu=h100\n# fp8tune: gpu=h100-sxm\n", "h100-sxm", 0),
        ("x = 1 # fp8tune: gpu=h200\n", "", 0),
        ("# not fp8tune: gpu=h200\n", "", 0),
        ("# fp8tune: ignore[some-rule]\n", "", 0),
        ("# fp8tune: gpu=A100\n", "a100", 0),
        ("# fp8tune:\n", "", 0),
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
        ("gpu = h100", ("gpu= has no value (write it without a space)",)),
        ("gpu=zzzzzz", ("no GPU named 'zzzzzz'",)),
        ("world-size=0", ("world-size=0 is not a number of GPUs",)),
        ("world-size=", ("world-size= has no value (write it",)),
        ("world-size=-1", ("world-size=-1 is not a number of GPUs",)),
        ("world-size=1e3", ("world-size=1e3 is not a number of GPUs",)),
        ("world-size=99999999", ("world-size=99999999 is not a number of GPUs",)),
        ("world-size=100000000", ("world-size=100000000 is not a number of GPUs",)),
        ("world-size=\u0664", ("world-size=\u0664 is not a number of GPUs",)),
        ("world_size=8", ("unknown name 'world_size'; did you mean world-size=?",)),
        ("gpus=8", ("unknown name 'gpus'; did you mean gpu=?",)),
        ("hello", ("unknown name 'hello'",)),
        ("tpu=x gpu=h1000", ("unknown name 'tpu'",)),
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


@pytest.mark.parametrize("comment", ["# FP8Tune: gpu=h100", "#FP8TUNE world-size=8"])
def test_capital_letters_are_a_problem(comment):
    problem = ("write fp8tune in lower case", (0, len(comment)))
    assert read_directive(f"{comment}\n") == Directive(problems=(problem,))


@each(
    "comment",
    [
        "# fp8tune",
        "# FP8Tune: what this file is for",
        "# fp8tune finds nothing here",
        "# fp8tune needs gpu=h100 for this",
        "# checked with fp8tune gpu=h100",
        "# fp8tune.sh gpu=h100",
        "x = 1 # fp8tune gpu=h100",
    ],
)
def test_prose_about_fp8tune_is_no_comment_for_it(comment):
    assert read_directive(f"{comment}\n[train]\n") == Directive()


def test_a_space_before_the_colon_is_no_problem():
    assert read_directive("# fp8tune : gpu=h200\n").gpu == "h200"


@pytest.mark.parametrize(
    ("gpu", "world_size", "target"),
    [
        (None, None, Target()),
        ("H100", None, Target("h100-sxm", 0, "--gpu", "")),
        (None, 8, Target("", 8, "", "--world-size")),
        ("h200", 8, Target("h200", 8, "--gpu", "--world-size")),
    ],
)
def test_what_the_command_line_asks(gpu, world_size, target):
    assert asked(gpu, world_size) == target


def test_each_figure_and_problem_has_its_own_line():
    text = "# fp8tune: gpu=h1000\n# fp8tune: gpu=h200\n# fp8tune: world-size=8\n"
    found = read_directive(text)
    assert (found.gpu_line, found.world_size_line) == (2, 3)
    assert [span for _, span in found.problems] == [(0, 20)]


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


def test_complete_leaves_what_it_does_not_say():
    target = Target("a10g", 2, "pyproject.toml", "pyproject.toml")
    assert Directive().complete(target) == target


@pytest.mark.parametrize(
    ("value", "size"), [("1", 1), ("010", 10), (str(MAX_WORLD_SIZE), MAX_WORLD_SIZE)]
)
def test_parse_world_size(value, size):
    assert parse_world_size(value) == size


@each("value", ["", "0", "-1", "+1", "1.0", "ten", "10000001", "²"])
def test_no_world_size(value):
    with pytest.raises(BadTarget, match=r"is not a number of GPUs$"):
        parse_world_size(value)


def test_parse_gpu():
    assert parse_gpu("NVIDIA H100 80GB HBM3") == "h100-sxm"
    with pytest.raises(BadTarget, match=r"^no GPU named 'h10'"):
        parse_gpu("h10")


def test_the_finding_of_a_bad_comment(lint):
    (found,) = lint("# fp8tune: gpu=h1000\n[train]\nseq_len = 16\n").diagnostics[:1]
    assert (found.rule, found.severity, found.region) == (
        "bad-directive",
        "warning",
        (1, 1, 1, 21),
    )
    assert "no GPU named 'h1000'; did you mean h100?" in found.message


def test_gpus_per_node():
    found = read_directive("# fp8tune: gpu=h200 gpus-per-node=4\n[train]\n")
    assert found.complete(Target()).gpus_per_node == 4
    assert found.complete(Target(gpus_per_node=8)).gpus_per_node == 8
    (problem,) = read_directive("# fp8tune: gpus-per-node=0\n[train]\n").problems
    assert problem[0] == "gpus-per-node=0 is not a number of GPUs"
