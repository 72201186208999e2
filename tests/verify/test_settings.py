"""Settings of a printed config."""

import time

from fp8tune.verify.settings import MOST, printed
from tests.each import each


@each(
    ("text", "expected"),
    [
        (
            "Job(a=1, t=Train(b='x', c=[1, 2]), d=None)",
            {"a": "1", "t.b": "x", "t.c": "[1, 2]", "d": "None"},
        ),
        ("Job(ac=<Ac.full: 'full'>, n=-1e-05)", {"ac": "full", "n": "-1e-05"}),
        ("{'a': {'b': 'x y'}, 'c': True}", {"a.b": "x y", "c": "True"}),
        ("Job(a=1, t=Train(b='cut of", {"a": "1", "t.b": "cut"}),
        ("Job(" * 5000, {}),
        ("a='" + "\\" * 5000, {"a": "\\" * 5000}),
    ],
)
def test_values_by_their_names(text, expected):
    assert printed(text) == expected


@each("junk", ["a", "'", "<", "[", "(", "\\'", "a.", "<a", "{'"])
def test_hostile_text_is_fast(junk):
    started = time.perf_counter()
    printed(junk * (65536 // len(junk)))
    assert time.perf_counter() - started < 5


def test_no_more_than_some():
    assert len(printed(",".join(f"k{n}={n}" for n in range(9999)))) == MOST
