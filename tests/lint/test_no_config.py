"""What is no TOML, or no train config, over one file."""

import pytest

from fp8tune.job import Target
from fp8tune.lint.engine import check
from tests.each import each


def test_a_byte_order_mark(rules):
    report = check("a.toml", b"\xef\xbb\xbf[train]\nseq_len = 0\n", rules, Target())
    assert [(d.rule, d.key, d.region) for d in report.diagnostics] == [
        ("byte-order-mark", "", (1, 1, 1, 1)),
        ("value-out-of-range", "train.seq_len", (2, 11, 2, 12)),
    ]


@pytest.mark.parametrize(
    ("data", "region", "message", "line"),
    [
        (
            b"[train]\n[model]\nx = 1\nx = 2\r\n",
            (4, 6, 4, 7),
            "not valid TOML: this key is already set above",
            "x = 2",
        ),
        (
            b"[train]\n[model]\nx = '\xff'\n",
            (3, 6, 3, 7),
            "not valid TOML: not UTF-8: byte 0xff (invalid start byte)",
            "x = '\ufffd'",
        ),
        (
            b"[train]\n[model]\nx = ",
            (3, 5, 3, 6),
            "not valid TOML: Invalid value at the end of the file",
            "x = ",
        ),
    ],
)
def test_invalid_toml(rules, data, region, message, line):
    report = check("a.toml", data, rules, Target(), explicit=False)
    (found,) = report.diagnostics
    assert (found.rule, found.key, found.region) == ("invalid-toml", "", region)
    assert found.message == message
    assert report.lines == {region[0]: line}


@each(
    ("text", "explicit", "skipped"),
    [
        ("[project]\nname = 'x'\n", True, "a Python project file"),
        ("[model]\ndim = 4096\n", False, "a model fragment for KempnerForge"),
        ("dim = 4096\nn_heads = 32\n", False, "a model fragment for KempnerForge"),
        ("[zzz]\na = 1\n", True, "no table that a known trainer reads"),
        ("[model]\ndim = 4096\n", True, ""),
        ("[train]\nseq_len = 2048\n", False, ""),
    ],
)
def test_skipped(rules, text, explicit, skipped):
    report = check("a.toml", text.encode(), rules, Target(), explicit=explicit)
    assert report.skipped == skipped
