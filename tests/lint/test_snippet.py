"""One finding as a terminal shows it."""

import pytest

from fp8tune.lint.diagnostic import Diagnostic, Fix, Label, Region
from fp8tune.lint.snippet import WIDTH, Painter
from tests.each import each

PLAIN = Painter(colour=False)


def finding(*labels, severity="error", message="what is wrong", helps="do this"):
    spans = tuple(
        Label("k", Region(line, start, end_line, end), text)
        for line, start, end_line, end, text in labels
    )
    return Diagnostic(
        "dir/a.toml", "a-rule", "FP8100", "crash", severity, message, helps, "", spans
    )


def rendered(found, lines):
    return PLAIN.finding(found, lines)


def marks(line, *labels):
    """The source line and the mark lines below it, as they are aligned."""
    spans = [(1, start, 1, end, text) for start, end, text in labels]
    shown = rendered(finding(*spans), {1: line}).split("\n")
    return shown[3 : 4 + len(labels)]


def test_several_spans_on_several_lines():
    found = finding(
        (31, 6, 31, 7, "splits every linear"),
        (9, 19, 9, 24, "converts every linear to Float8Linear"),
        (10, 1, 10, 4, "beside it"),
        (31, 1, 31, 3, ""),
    )
    lines = {9: 'mixed_precision = "fp8"', 10: "key = 1", 31: "tp = 4"}
    assert (
        rendered(found, lines)
        == """\
error[a-rule] what is wrong
  --> dir/a.toml:31:6
   |
 9 | mixed_precision = "fp8"
   |                   ----- converts every linear to Float8Linear
10 | key = 1
   | --- beside it
...
31 | tp = 4
   |      ^ splits every linear
   | --
   |
   = help: do this
   = why: fp8tune explain a-rule
"""
    )


@pytest.mark.parametrize(
    ("fix", "shown"),
    [
        (Fix("safe", "Remove it", "", ()), "Remove it (--fix)"),
        (
            Fix("unsafe", "Set it", "less", (), not_applied="then it fails"),
            "Set it: not applied, because then it fails",
        ),
        (
            Fix("unsafe", "Set `tp = 1`", "needs 4 times the memory", ()),
            "Set `tp = 1` (--unsafe-fixes; needs 4 times the memory)",
        ),
        (
            Fix("unsafe", "a\nb", "\x1b[2J", ()),
            r"a\u000ab (--unsafe-fixes; \u001b[2J)",
        ),
    ],
)
def test_a_fix_stands_between_help_and_why(fix, shown):
    found = finding((1, 1, 1, 2, "here"))._replace(fix=fix)
    assert rendered(found, {1: "a = 1"}).split("\n")[-5:] == [
        "  |",
        "  = help: do this",
        f"  = fix: {shown}",
        "  = why: fp8tune explain a-rule",
        "",
    ]


@each(
    ("line", "start", "end", "shown"),
    [
        ("tp = 4", 6, 7, ["1 | tp = 4", "  |      ^ x"]),
        ("\ttp = 4", 7, 8, ["1 |     tp = 4", "  |          ^ x"]),
        ("'漢字' = 12", 8, 10, ["1 | '漢字' = 12", "  |          ^^ x"]),
        (
            "'\uff46\uff50\uff18' = 1",
            9,
            10,
            ["1 | '\uff46\uff50\uff18' = 1", "  |            ^ x"],
        ),
        ("'e\u0301' = 1", 1, 5, ["1 | 'e\u0301' = 1", "  | ^^^ x"]),
        ("'\u202e' = 1", 7, 8, [r"1 | '\u202e' = 1", "  |            ^ x"]),
        ("a = 1", 6, 6, ["1 | a = 1", "  |      ^ x"]),
        ("", 1, 2, ["1 |", "  | ^ x"]),
    ],
)
def test_marks_stand_below_what_they_mean(line, start, end, shown):
    assert marks(line, (start, end, "x")) == shown


@each(
    ("length", "start", "left", "right"),
    [
        (WIDTH, 5, "", ""),
        (500, 5, "", "..."),
        (500, 200, "...", "..."),
        (500, 495, "...", ""),
    ],
)
def test_long_lines_are_cut_around_the_span(length, start, left, right):
    line = "".join(str(i % 10) for i in range(length))
    source, mark = marks(line, (start, start + 3, "x"))
    text = source.removeprefix("1 | ")
    assert (text.startswith("..."), text.endswith("...")) == (bool(left), bool(right))
    assert len(text) <= WIDTH + 6
    column = mark.index("^") - 4
    assert text[column : column + 3] == line[start - 1 : start + 2]
    assert mark.endswith("^^^ x")


def test_spans_far_apart_on_a_long_line_have_each_their_part_of_it():
    line = "near" + "x" * 400 + "far" + "y" * 400
    found = finding((1, 1, 1, 5, "a"), (1, 405, 1, 408, "b"))
    first, below, second, mark = rendered(found, {1: line}).split("\n")[3:7]
    column = mark.index("---")
    assert (first[4:8], below) == ("near", "  | ^^^^ a")
    assert (second[column : column + 3], mark[column:]) == ("far", "--- b")


def test_a_span_over_several_lines_is_marked_to_the_end_of_its_first():
    found = finding((2, 5, 4, 2, "all of it"))
    assert rendered(found, {2: "x = ["}).split("\n")[3:5] == [
        "2 | x = [",
        "  |     ^ all of it",
    ]


def test_nothing_of_the_config_acts_on_the_terminal():
    found = finding((1, 1, 1, 2, "\x1b[31m"), message="\x1b]0;x\x07", helps="\r\x9b")
    shown = rendered(found._replace(path="\x1b[2J.toml"), {1: "'\x1b[5m' = '\u2066'"})
    assert "\x1b" not in shown
    assert (
        shown
        == r"""error[a-rule] \u001b]0;x\u0007
 --> \u001b[2J.toml:1:1
  |
1 | '\u001b[5m' = '\u2066'
  | ^ \u001b[31m
  |
  = help: \u000d\u009b
  = why: fp8tune explain a-rule
"""
    )
