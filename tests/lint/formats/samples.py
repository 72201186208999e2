"""What each format is tried on: files, and how ``fp8tune lint`` is called on them."""

import os

from tests.sample import GOOD, TP

SLOW = TP.replace("[dist", "compile_model = false\n[dist")
HELD = TP.replace(
    "tp = 4", "tp = 4  # fp8tune: ignore[fp8-with-tensor-parallel] -- a test"
)
WITHOUT_REASON = HELD.replace(" -- a test", "")
TWICE = "# fp8tune: ignore all\n# fp8tune: ignore this\n" + GOOD
HOSTILE = (
    '[train]\n"zz]]>%0A::error::]({0})](https://a.example)<b>&\\u001b\\u202e" = 1\n'
    'mixed_precision = "##[error]\\u0000"\n'
)
ODD_NAMES = (
    "a b.toml",
    "100%.toml",
    "::error::x,y=1.toml",
    "##[add-mask]x.toml",
    "]]>&<\"'.toml",
    "new\nline\r.toml",
    "\x1b[2J\x07.toml",
    "\u202etxt.toml",
    "\u6f22\U0001f600.toml",
    "sub/c:d.toml",
    os.fsdecode(b"latin-\xe9.toml"),
)

SAMPLES = {
    "nothing": ({}, (".",)),
    "good": ({"good.toml": GOOD}, (".",)),
    "several labels": ({"a.toml": TP}, ("a.toml",)),
    "overrides": (
        {"a.toml": TP},
        ("a.toml", "--", "--distributed.tp=2", "--train.zz\x1b]]>=1", "x"),
    ),
    "all levels": (
        {
            "a.toml": SLOW,
            "good.toml": GOOD,
            "pyproject.toml": "[tool.fp8tune.severity]\nslow = 'note'\n",
        },
        (".", "--gpu", "h100"),
    ),
    "twice the same": ({"a.toml": TWICE}, ("a.toml",)),
    "held back": ({"a.toml": HELD, "b.toml": WITHOUT_REASON}, (".",)),
    "unreadable": (
        {
            "a.toml": TP,
            "latin.toml": b"[train]\nx = '\xe9'\n",
            "big.toml": b" " * 2**21,
        },
        ("a.toml", "latin.toml", "big.toml", "gone.toml", "##[error]%0A::x"),
    ),
    "not TOML": ({"a.toml": "[train]\nbatch_size = = 1\n"}, ("a.toml",)),
    "no config": ({"uv.toml": "[project]\nname = 'x'\n"}, ("uv.toml",)),
    "hostile text": ({"a.toml": HOSTILE}, ("a.toml",)),
    "hostile names": (dict.fromkeys(ODD_NAMES, TP), (".", *ODD_NAMES[:3])),
    "wide text": (
        {"a.toml": '[train]\n"\u6f22\U0001f600e\u0301" = 1\n# \u6f22\n'},
        ("a.toml",),
    ),
    "byte-order mark": ({"a.toml": "\ufeff" + TP}, ("a.toml",)),
}
