"""Durations as people write and read them."""

import pytest

from fp8tune.search.budget import BadDuration, parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("30m", 1800),
        ("2h", 7200),
        ("1h30m", 5400),
        (" 1h 5s ", 3605),
        ("0.5h", 1800),
        ("1h1m1.5s", 3661.5),
    ],
)
def test_durations(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "2", "h", "-1h", "30m2h", "1e3s", "2 hours", "∞"])
def test_no_duration(text):
    with pytest.raises(BadDuration, match="is no duration; write 90s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["0s", "0h", "31h1000h", "800h", "9" * 99 + "h"])
def test_too_little_and_too_much(text):
    with pytest.raises(BadDuration, match=r"duration|at most 30 days"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (3599, "1 h 0 min"),
        (5400, "1 h 30 min"),
    ],
)
def test_shown(seconds, text):
    assert show_duration(seconds) == text
