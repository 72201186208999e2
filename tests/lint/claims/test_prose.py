"""Which comments there are, which sentence a word stands in, and what hedges it."""

import pytest

from fp8tune.formats.toml.document import Document
from fp8tune.lint.claims.prose import MAX_LENGTH, Comments, Line
from fp8tune.lint.claims.speech import hedged
from tests.each import each


def lines(text):
    return list(Comments(Document(text, {}, bom=False)).lines())


def line(text, start, *, header=False, inline=False):
    return Line(text, start, text.lower(), header, inline)


@each(
    ("text", "found"),
    [
        ("", []),
        ("# no figure\na = 1\n", []),
        ("# on 8 GPUs\n", [line(" on 8 GPUs", 1, header=True)]),
        ("\n  ## 8\n[a]\n# 9\n", [line(" 8", 5, header=True), line(" 9", 13)]),
        ("a = 1  # full AC\n", [line(" full AC", 8, inline=True)]),
        ("a = 1\r\n# 8 GPUs\r\n", [line(" 8 GPUs\r", 8)]),
        ('a = "# 8"  # 9\n', [line(" 9", 12, inline=True)]),
        ('a = "# 8"\n', []),
        ("a = '''\n# 8\n'''\n# 9\n", [line(" 9", 17)]),
        ('[x] # 8 "quoted"\n', [line(' 8 "quoted"', 5, inline=True)]),
        ("# fp8tune: world-size=8\n", []),
        ("# fp8tune search: 4 -> 8: +3.0 % tokens/s\n", []),
        ("# python x --steps=8\n", []),
        ("#" + "8" * (MAX_LENGTH + 1), []),
    ],
)
def test_lines(text, found):
    assert lines(text) == found


@each(
    ("text", "sentence", "paragraph", "first"),
    [
        ("# One X here.\n", " # One X here", 0, True),
        ("# One. Two X.\n", "  Two X", 0, False),
        ("# One e.g. two X.\n", " # One e.g. two X", 0, True),
        ("# One\n# two X\n# three.\n", " # One\n# two X\n# three", 0, True),
        ("# One\n# - X\n# - two\n", " - X", 0, False),
        ("# Label: one\n# Total: X\n", " Total: X", 0, False),
        ("# One\n#\n# X\n", " # X", 1, True),
        ("# One\n\n# X\n", " # X", 1, True),
        ("# fp8tune: gpu=h100\n#\n# X\n", " # X", 0, True),
        ("# Label:\n# - X\n", "# Label: - X", 0, False),
        ("# Label:\n#\n# - X\n", "# Label: # - X", 1, True),
        ("# One\n[a]\nb = 1 # X\n", " # X", 1, True),
    ],
)
def test_sentence(text, sentence, paragraph, first):
    at = text.index("X")
    assert Comments(Document(text, {}, bom=False)).sentence((at, at + 1)) == (
        sentence,
        paragraph,
        first,
    )


@pytest.mark.parametrize(
    "words",
    [
        "16 GPUs, 256 seqs per step.",
        "Global batch = 3 DP-ranks x 4 batch x 8 accum = 96 seqs -> fine",
        "keeps the same effective batch (256 seq/step)",
        "uses 16 GPUs",
        "This run is on 4x H200 (141 GB/GPU)",
    ],
)
def test_plain(words):
    assert not hedged(words)


@each(
    "words",
    [
        "vs 7b at 4 GPUs",
        "Use 32 GPUs",
        "if it fits, full AC",
        "e.g. 2M tokens/step",
        "was 500 steps",
        "needs 8 GPUs",
        "the paper has 2M tokens/step",
        "as in 7b.toml",
        "up to < 8 GPUs",
        "8 GPUs or more",
        "selective AC OOMs",
        "a slower variant",
        "Should this be 8 GPUs?",
        "USE 8",
        "twin of the FP8 run",
    ],
)
def test_hedged(words):
    assert hedged(words)


def test_columns_hold_behind_letters_that_grow_in_lower_case():
    text = "# \u0130 8 GPUs\n"
    (found,) = lines(text)
    assert len(found.lowered) == len(found.text)
