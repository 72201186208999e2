"""The page: whole pages word for word, and harmless and bounded whatever a study has.

After a change of the page write the golden pages again and read the diff:

    pytest tests/report/test_page.py --update-golden
"""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fp8tune import __version__
from fp8tune.report.data import read_report
from fp8tune.report.html import draw_plots
from fp8tune.report.plots import PLACEHOLDERS, to_svg
from fp8tune.search.saved_study import load_study
from tests.report.checker import checked, html
from tests.report.studies import (
    CONFIG,
    CUT_OFF,
    FAILED,
    LARGER,
    WHOLE,
    plan,
    report_of,
    study,
    told,
)
from tests.search.tries import AC, BF16, GIVEN, KNOBS, OTHER, ran

GOLDEN = Path(__file__).parent / "golden"
EVIL = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m$x^2$"
)
FULL = told(LARGER, 190, reserved_gib=131.5)
STUDIES = {
    "faster": (
        [
            *WHOLE[:4],
            ("search", FULL),
            ("search", ran((0, 1, 1, 1), outcome="hang"), CUT_OFF),
            ("search", ran((2, 0, 1, 1), outcome="compile")),
            *WHOLE[5:],
        ],
        {"output": "a.tuned.toml"},
    ),
    "nothing_ran": ([*FAILED, ("search", ran(LARGER, outcome="hang"), CUT_OFF)], {}),
}


@pytest.mark.parametrize("name", STUDIES)
def test_golden_page(name, tmp_path, request, without_plots):
    trials, about = STUDIES[name]
    page = html(report_of(tmp_path / ".fp8tune/s", trials, **about))
    page = re.sub(r"<style>.*</style>", "<style></style>", page, flags=re.DOTALL)
    page = page.replace(__version__, "VERSION")
    path = GOLDEN / f"{name}.html"
    if request.config.getoption("--update-golden"):
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8")


ONE = [("baseline", told(GIVEN, 0.001))]


@pytest.mark.parametrize(
    ("trials", "about"),
    [(WHOLE, {}), (ONE, {"device": "cpu"}), (FAILED, {"records": "ab"}), ([], {})],
)
def test_the_page_is_valid(tmp_path, trials, about):
    text = html(report_of(tmp_path / "s", trials, **about))
    checker = checked(text)
    headings = [tag for tag, _ in checker.tags if tag in ("h1", "h2")]
    drawn = text.count("<figure>")
    assert headings == ["h1"] + ["h2"] * (drawn + 3 + (drawn < 4))
    roles = [attrs.get("aria-label") for _, attrs in checker.tags if "role" in attrs]
    assert text.count("<svg ") == sum(a.get("role") == "img" for _, a in checker.tags)
    assert roles
    assert not [colour for colour in PLACEHOLDERS if colour in text]
    for name in PLACEHOLDERS._fields:
        assert len(re.findall(rf"--{name}: #", text)) == 2  # light and dark


def evil_trials():
    more = {
        "message": EVIL + "x" * 100_000,
        "environment": EVIL,
        "versions": {EVIL: EVIL},
        "extrapolated": EVIL,
    }
    return [
        ("baseline", told(GIVEN, 100, more=more)),
        ("bf16-baseline", told(BF16, 90, fp8=False, more=more)),
        ("search", ran(OTHER, outcome="user", more={"message": [EVIL]})),
        ("search", told((2, 1, 1, 1), 150, more={"losses": {}, "message": "\ud800"})),
    ]


def test_nothing_of_others_gets_through(tmp_path):
    knobs = (*KNOBS[:1], KNOBS[1]._replace(values=(EVIL, "full")), *KNOBS[2:])
    trials = [
        (stage, record._replace(knobs={**record.knobs, AC: EVIL}))
        if record.knobs[AC] == "none"
        else (stage, record)
        for stage, record in evil_trials()
    ]
    made = plan(f"# {EVIL[:-12]}\n{CONFIG}", f"{EVIL}.toml", knobs)
    folder = study(tmp_path / "<b>s", trials, made, device=EVIL, allow=[EVIL])
    report = read_report(load_study(folder))
    text = html(report)
    checked(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)
    assert len(text) < 1_500_000
    for plot in draw_plots(report):
        if plot.draw:
            ElementTree.fromstring(to_svg(plot))


def test_a_long_table_is_cut(tmp_path, monkeypatch, without_plots):
    monkeypatch.setattr("fp8tune.report.html.MAX_ROWS", 20)
    monkeypatch.setattr("fp8tune.report.html.MAX_LINES", 5)
    many = [("search", ran(OTHER, outcome="oom"))] * 20
    text = html(report_of(tmp_path / "s", [*WHOLE[:3], *many]))
    assert "20 of 23 rows are shown." in text
    assert re.search(r"5 of \d+ lines are shown\.", text)
    trials = text.partition('id="trials"')[2].partition("</section>")[0]
    assert trials.count("<tr") == 1 + 20
