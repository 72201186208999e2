"""Ignore comments taken out of a config, or fixed: the comment alone changes."""

import tomllib

import pytest

from fp8tune.config.mark import read_ignores
from fp8tune.formats.edits import apply
from fp8tune.formats.toml.document import parse
from fp8tune.lint.ignores import without
from fp8tune.lint.rewrite import apply_fixes
from tests.each import each


def fixed(text, edit, *arguments):
    (ignore,) = read_ignores(parse(text.encode()))
    return apply(text, [edit(ignore, *arguments)])


@each(
    ("text", "index", "after"),
    [
        ("a = 1  # fp8tune: ignore[x] -- why\n", 0, "a = 1\n"),
        ("a = 1 # fp8tune: ignore[x]\r\nb = 2\r\n", 0, "a = 1\r\nb = 2\r\n"),
        ("b = 2\n  # fp8tune: ignore[x]\na = 1\n", 0, "b = 2\na = 1\n"),
        ("a = 1\n# fp8tune: ignore[x]", 0, "a = 1\n"),
        ("a = [\n 1, # fp8tune: ignore[x]\n]\n", 0, "a = [\n 1,\n]\n"),
        ("a = [\n # fp8tune: ignore[x]\n 1,\n]\n", 0, "a = [\n 1,\n]\n"),
        (
            "a = 1 # fp8tune: ignore[x, y ,z] -- why\n",
            1,
            "a = 1 # fp8tune: ignore[x, z] -- why\n",
        ),
        (
            "a = 1 # fp8tune: ignore[x, y ,z] until=2030-01-01\n",
            2,
            "a = 1 # fp8tune: ignore[x, y] until=2030-01-01\n",
        ),
    ],
)
def test_without(text, index, after):
    assert fixed(text, lambda ignore: without(text, ignore, index)) == after
    assert tomllib.loads(after) == tomllib.loads(text)


ONE, TWO, THREE = "fp8-without-compile", "gpu-without-fp8", "fp8-with-tensor-parallel"


@each(
    ("comment", "safe", "after"),
    [
        (f"[{ONE}]", True, ""),
        (f"[{ONE}, {THREE}, {ONE}] until=2099-01-01 -- why", True, ""),
        (f"[{TWO}]", True, f"[{TWO}]"),
        (f"[{ONE}, {TWO}, {THREE}] -- why", True, f"[{TWO}] -- why"),
        ("[FP8_WITHOUT_COMPILE]", True, ""),
        ("[fp8-without-compiler]", False, ""),
        (f"[our-rule, {ONE}]", False, ""),
    ],
)
def test_what_is_left_of_a_comment(builtin, looks, comment, safe, after):
    """Nothing is wrong here but the comment; without a GPU one rule is not judged."""
    text = '[train]\nmixed_precision = "fp8"  # fp8tune: ignore{}\n'
    before = text.format(comment)
    said = apply_fixes(before.encode(), looks(*builtin), unsafe=not safe).data.decode()
    bare = '[train]\nmixed_precision = "fp8"\n'
    assert said == (text.format(after) if after else bare)


def test_an_expired_comment_goes_and_its_finding_shows(builtin, looks):
    config = '[train]\nmixed_precision = "fp8"\ncompile_model = false'
    text = f"{config} # fp8tune: ignore[{ONE}] until=2020-01-01 -- why\n"
    said = apply_fixes(text.encode(), looks(*builtin), unsafe=False)
    assert said.data.decode() == f"{config}\n"
    assert [found.rule for found in said.report.diagnostics] == [ONE]


@pytest.mark.parametrize("unsafe", [True, False])
@pytest.mark.parametrize(
    "comment",
    ["# fp8tune: Ignore[value-truncated]", "# fp8tune: ignore[Value_truncated]"],
)
def test_a_finding_that_a_comment_is_meant_to_silence_is_not_mended(
    builtin, looks, comment, unsafe
):
    text = f"[train]\nbatch_size = 3.9  {comment}\n"
    said = apply_fixes(text.encode(), looks(*builtin), unsafe=unsafe).data.decode()
    assert said == text.replace(comment, "# fp8tune: ignore[value-truncated]")
