"""The generated pages of the documentation, and the words of the written ones.

`.ci/run` builds the site, where a link that leads nowhere is an error.
"""

import re
import tomllib
from pathlib import Path

import pytest

from fp8tune import __version__
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import rule_page
from fp8tune.lint.explain.text import text
from fp8tune.words import plain
from tests.cluster.faults import table
from tests.each import each

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generate():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        import generate

        yield generate


@pytest.fixture(scope="module")
def pages(generate):
    return generate.pages(ROOT)


def test_the_guide_says_what_the_faults_of_the_tests_come_to():
    guide = ROOT / "docs" / "guides" / "several-machines.md"
    assert table() in guide.read_text()


def test_the_address_of_the_repository_has_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    address = project.get("urls", {}).get("Repository", "ADDRESS-OF-FP8TUNE")
    assert f"repo: {address}\n" in (ROOT / "README.md").read_text()


def test_rules_and_the_version_name_releases_of_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (\S+) \(", text, re.MULTILINE)
    assert releases[0] == __version__
    assert {rule.since for rule in builtin()} <= set(releases)


def test_pages_hold_no_control_characters(pages):
    for page in pages.values():
        assert all(line.isprintable() for line in page.split("\n"))


def test_the_page_of_a_rule_says_what_explain_says(pages):
    def joined(text):
        return "".join("".join(map(plain, text.split("\n"))).replace("\\", "").split())

    missing = []
    for rule in builtin():
        page = rule_page(rule)
        texts = [page.summary, page.why, page.when, page.category, page.consequence]
        texts += [page.severity, page.confidence, page.since, page.checks[1:]]
        texts += [page.bad[0].config, page.bad[0].help, page.good[0]]
        texts += [page.bad[0].message.partition(": ")[2]]
        texts += [part for fix in page.fixes for part in (fix.title, fix.changes)]
        texts += [*page.seen, *page.references]
        for where in (pages[f"rules/{page.name}.md"], text(page)):
            inside = joined(where)
            missing += [(page.name, x) for x in texts if joined(x) not in inside]
    assert missing == []


def test_links_between_generated_pages_have_a_target(pages):
    whole = "\n".join(pages.values())
    targets = set(re.findall(r"^\(([\w.-]+)\)=$", whole, re.MULTILINE))
    links = set(re.findall(r"\]\(#((?:rule|fact|myth)-[\w.-]+)\)", whole))
    assert links - targets == set()


def test_every_recorded_result_has_a_page(pages):
    results = {path.stem for path in (ROOT / "benchmarks/results").glob("*.md")}
    assert results == {
        Path(name).stem for name in pages if name.startswith("evidence/")
    } - {"index"}


def test_pages_that_are_gone_are_removed(generate, tmp_path):
    docs = tmp_path / "docs"
    (docs / "rules").mkdir(parents=True)
    (docs / "rules" / "gone.md").write_text("x")
    (docs / "own.md").write_text("kept")
    (tmp_path / "benchmarks").symlink_to(ROOT / "benchmarks")
    for name in ("README.md", "CHANGELOG.md"):
        (tmp_path / name).symlink_to(ROOT / name)
    generate.write(docs)
    assert not (docs / "rules" / "gone.md").exists()
    assert (docs / "own.md").read_text() == "kept"
    assert (docs / "keys" / "torchtitan.md").exists()


WORDS = re.compile(
    r"\b(twins?|mend(s|ed|ing)?|made-up|anew|in vain|unsure|unjudged"
    r"|nobody says|the given one|rivals?)\b",
    re.IGNORECASE,
)
WRITTEN = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
WRITTEN += sorted((ROOT / "docs").glob("*.md"))
WRITTEN += sorted((ROOT / "rules").glob("*/*.toml"))
for folder in ("guides", "concepts", "reference"):
    WRITTEN += sorted((ROOT / "docs" / folder).glob("*.md"))
for folder in ("", "results"):
    WRITTEN += sorted((ROOT / "benchmarks" / folder).glob("*.md"))


@each("path", WRITTEN)
def test_pages_use_the_words_of_the_field(path):
    found = [match[0] for match in WORDS.finditer(path.read_text(encoding="utf-8"))]
    assert found == []
