"""``fp8tune compare`` of runs: what is compared, exit codes, JSON and the page."""

import re
from html.parser import HTMLParser

import pytest

from tests.each import each
from tests.support.curves import recorded, table


@pytest.fixture(scope="module")
def tables():
    """CSV files of recorded runs."""
    names = "precision", "fault", "data", "seed"
    return {
        f"{'-'.join(str(one[name]) for name in names if one[name] != '')}.csv": table(
            one
        )
        for one in recorded()
    }


SIX = tuple(f"bf16-same-{n}.csv" for n in range(6))


@each(
    ("runs", "code", "verdict"),
    [
        (("fp8-same-2.csv", *SIX), 0, "same"),
        (("fp8-same-0.csv", SIX[0]), 3, "inconclusive"),
        (("fp8-underflow-same-0.csv", *SIX), 1, "fp8-worse"),
        (("fp8-overflow-same-0.csv", SIX[0]), 1, "diverged"),
        ((*SIX[:2], "--label", "bf16", "--label", "fp8"), 3, "inconclusive"),
    ],
)
def test_verdicts_and_exit_codes(project, fp8tune, tables, runs, code, verdict):
    project(tables)
    text = fp8tune("compare", *runs)
    assert (text.code, text.out.splitlines()[0]) == (code, f"verdict: {verdict}")
    found = fp8tune("compare", *runs, "--output-format", "json")
    assert (found.code, found.json["verdict"]) == (code, verdict)
    assert found.json["findings"][0]["code"] == verdict


def test_json_has_these_fields(project, fp8tune, tables):
    project(tables)
    found = fp8tune("compare", "fp8-same-2.csv", *SIX, "--output-format", "json").json
    assert set(found) == {
        *("version", "verdict", "why", "runs", "aligned_by", "same_data", "loss"),
        *("tokens_to_equal_loss", "time_to_equal_loss", "speed", "gradient_norm"),
        *("diverged_at", "findings"),
    }
    assert found["aligned_by"] == "tokens"
    assert found["same_data"] is True
    assert found["runs"][0] == {
        "path": "fp8-same-2.csv",
        "precision": "fp8",
        "source": "CSV",
        "files": ["fp8-same-2.csv"],
        "steps": 400,
        "last_step": 400,
        "tokens_per_step": 1024,
        "tokens_per_second": None,
        "step_s": None,
        "starts": 1,
    }


@each(
    ("arguments", "message"),
    [
        (
            ("a.toml", "bf16-same-0.csv"),
            "a.toml is a config and bf16-same-0.csv is not",
        ),
        (("a.toml", "a.toml", "--html", "x.html"), "--html are for runs"),
        ((*SIX[:2], "--label", "fp8"), "--label: one for each run"),
        ((SIX[0], "nothing.log"), "nothing.log: No such file or directory"),
        ((*SIX[:2], "--html", SIX[2]), "must end with .html"),
    ],
)
def test_what_cannot_be_compared(project, fp8tune, tables, arguments, message):
    project({**tables, "a.toml": "[train]\n", "a.txt": "hello\n"})
    ended = fp8tune("compare", *arguments)
    assert ended.code == 2
    assert message in ended.err


class Page(HTMLParser):
    """Collects the addresses of a page, and its text outside of plots."""

    def __init__(self):
        super().__init__()
        self.addresses = []
        self.tags = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [v for k, v in attrs if k in ("src", "href", "xlink:href")]


@pytest.mark.parametrize("name", ["fp8-same-2.csv", "fp8-saturated-same-0.csv"])
def test_the_page_loads_nothing(project, fp8tune, tables, name):
    folder = project({**tables, "<b>.csv": tables["bf16-same-0.csv"]})
    fp8tune("compare", name, "<b>.csv", *SIX[1:], "--html", "x.html")
    text = (folder / "x.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert all(address.startswith("#") for address in page.addresses)
    assert page.tags.count("svg") == 1
    assert "b" not in page.tags
    assert "&lt;b&gt;.csv" in text
    assert re.search(r'<h1 id="headline">(The same|FP8 diverged): ', text)
    assert "mathdefault" not in text
