"""The page and its files: valid, harmless and complete, whatever a study holds."""

import io
import re
from xml.etree import ElementTree

import pytest
from matplotlib.image import imread

from fp8tune.search.report.data import case
from fp8tune.search.report.figures.canvas import STAND_INS, Figure, files
from fp8tune.search.report.page import figures
from fp8tune.search.saved import load_study
from tests.search.report.checker import checked, html
from tests.search.report.studies import CONFIG, WHOLE, plan, shown, study, told
from tests.search.tries import GIVEN, KNOBS, OTHER, TWIN, ran

EVIL = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u202e\x1b[31m$x^2$"
)
FAILED = [
    ("baseline", ran(GIVEN, outcome="oom")),
    ("search", ran(OTHER, outcome="nan")),
]
BARE = [
    ("baseline", ran(GIVEN)),
    ("bf16-baseline", ran(TWIN)),
    ("search", ran(OTHER, 150)),
]
ONE = [("baseline", told(GIVEN, 0.001))]


@pytest.mark.parametrize(
    ("pairs", "about"),
    [
        *((pairs, {}) for pairs in (WHOLE, WHOLE[:3], FAILED, BARE, ONE, [])),
        (WHOLE, {"device": "cpu"}),
        (WHOLE, {"records": "ab"}),
    ],
)
def test_the_page_is_valid(tmp_path, pairs, about):
    text = html(shown(tmp_path / "s", pairs, **about))
    checker = checked(text)
    headings = [tag for tag, _ in checker.tags if tag in ("h1", "h2")]
    assert headings == ["h1"] + ["h2"] * 8
    drawn = [attrs for tag, attrs in checker.tags if tag == "svg"]
    assert all(a["role"] == "img" and a["aria-label"] for a in drawn)
    scrolled = [a for _, a in checker.tags if a.get("class") == "scroll"]
    assert all(a["tabindex"] == "0" and a["aria-label"] for a in scrolled)


def test_a_whole_study_has_its_plots_and_colours_of_the_page(tmp_path):
    text = html(shown(tmp_path / "s"))
    assert text.count("<svg ") == 2 * 5
    assert not [colour for colour in STAND_INS if colour in text]
    for name in STAND_INS._fields:
        assert f"var(--{name})" in text
        assert len(re.findall(rf"--{name}: #", text)) == 2  # light and dark


def test_the_diff_is_shown(tmp_path):
    text = html(shown(tmp_path / "s"))
    assert "<del>-batch_size = 2</del>" in text
    assert "<ins>+batch_size = 4</ins>" in text


def evil_pairs():
    more = {
        "message": EVIL + "x" * 100_000,
        "environment": EVIL,
        "versions": {EVIL: EVIL},
        "extrapolated": EVIL,
    }
    return [
        ("baseline", told(GIVEN, 100, more=more)),
        ("bf16-baseline", told(TWIN, 90, fp8=False, more=more)),
        ("search", ran(OTHER, outcome="user", more={"message": [EVIL]})),
        ("search", told((2, 1, 1, 1), 150, more={"losses": {}, "message": "\ud800"})),
    ]


def test_nothing_foreign_gets_through(tmp_path):
    knobs = (*KNOBS[:1], KNOBS[1]._replace(values=(EVIL, "full")), *KNOBS[2:])
    pairs = [
        (stage, record._replace(knobs=renamed(record.knobs, knobs)))
        for stage, record in evil_pairs()
    ]
    made = plan(f"# {EVIL[:-12]}\n{CONFIG}", f"{EVIL}.toml", knobs)
    folder = study(tmp_path / "<b>s", pairs, made, device=EVIL, allow=[EVIL])
    told_case = case(load_study(folder))
    text = html(told_case)
    checked(text)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\u2066-\u2069]", text)
    assert len(text) < 1_500_000
    for figure in figures(told_case):
        if isinstance(figure, Figure):
            ElementTree.fromstring(files(figure)["svg"])


def renamed(values, knobs):
    key = knobs[1].key
    return {**values, key: EVIL if values[key] == "none" else values[key]}


def test_a_huge_study_has_a_bounded_page(tmp_path):
    many = [("search", told(OTHER, 100 + n / 100)) for n in range(200)]
    many += [("search", ran(OTHER, outcome="oom"))] * 1300
    text = html(shown(tmp_path / "s", [*WHOLE[:2], *many]))
    assert "1,000 of 1,502 rows are shown." in text
    assert len(text) < 2_000_000


def test_files_of_the_plots(tmp_path):
    drawn = figures(shown(tmp_path / "s"))
    made = {f.name: files(f) for f in drawn if isinstance(f, Figure)}
    assert list(made) == ["memory", "knobs", "predicted", "loss", "steps"]
    for kinds in made.values():
        height, width, _ = imread(io.BytesIO(kinds["png"])).shape
        assert width == 1600
        assert height > 400
        root = ElementTree.fromstring(kinds["svg"])
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert b"var(" not in kinds["svg"]
