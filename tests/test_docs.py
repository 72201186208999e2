"""The generated pages of the documentation, and the words of the written ones.

`.ci/run` builds the site, where a link that leads nowhere is an error.
"""

import json
import re
import tomllib
from pathlib import Path

import pytest

from fp8tune import __version__
from fp8tune.lint.explain.reads import builtin
from fp8tune.lint.explain.rule import rule_page
from fp8tune.lint.explain.text import text
from fp8tune.trainers.about import USUAL, is_of, named, order, trainers
from fp8tune.trials.space import TRAITS, traits_of
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


def rows(path, heading):
    """The cells of each row of the table below a heading, without its head."""
    below = (ROOT / "docs" / path).read_text().partition(heading)[2]
    lines = below[below.index("\n|") + 1 :].partition("\n\n")[0].strip().split("\n")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def about_of(cell):
    """What the trainer says of itself that the first cell of a row names."""
    return trainers().get(named(re.sub(r"\[|\].*| with .*", "", cell)))


def test_the_page_of_trainers_names_their_releases():
    listed = {about_of(row[0]).name: row[1] for row in rows("trainers.md", "# T")[:-1]}
    assert listed.keys() == trainers().keys()
    for name, cell in listed.items():
        spans = re.findall(r"(\d+\.[\d.]+\w*)(?: to (\S+))?", cell)
        covered = {
            release
            for first, last in spans
            for release in trainers()[name].releases
            if order(first) <= order(release) <= order(last or first)
        }
        assert covered == {*filter(None, trainers()[name].releases)}, (name, cell)


def test_the_page_of_trainers_names_their_knobs():
    *table, own = rows("trainers.md", "## What a search tries")
    assert len(table) == len(trainers())
    for title, varied, allowed, _ in table:
        about = about_of(title)
        roles = {k.role for k in about.knobs if is_of(k.bounds, about.versions[-1])}
        free = {role for role in roles if "cuda" not in traits_of(role).frozen_on}
        assert {*re.findall(r"`(\w+)`", varied)} == free, title
        assert {*re.findall(r"`(\w+)`", allowed)} == roles - free, title
    assert re.findall(r"`(\w+)`", own[1] + own[2]) == [knob["role"] for knob in USUAL]


def test_the_guide_to_search_names_the_knobs_of_each_group():
    groups = {traits.group: set() for traits in TRAITS.values() if traits.group}
    for role, traits in TRAITS.items():
        if traits.group:
            groups[traits.group].add(role)
    table = rows("guides/search.md", "## What is varied")
    listed = {name.strip("`"): {*re.findall(r"`(\w+)`", cell)} for name, cell in table}
    assert {name: listed[name] for name in groups} == groups


def test_the_address_of_the_repository_has_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    address = project.get("urls", {}).get("Repository", "ADDRESS-OF-FP8TUNE")
    assert f"repo: {address}\n" in (ROOT / "README.md").read_text()


def test_rules_and_the_version_name_releases_of_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    releases = re.findall(r"^## (\S+) \(", text, re.MULTILINE)
    assert releases[0] == __version__
    extension = json.loads((ROOT / "editors/vscode/package.json").read_text())
    assert extension["version"] == __version__
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


def test_recorded_results_are_linked_where_the_repository_has_them():
    """The site has a folder of them, which conf.py puts into the links."""
    written = [ROOT / "docs/index.md", *(ROOT / "docs").glob("guides/*.md")]
    for page in written:
        assert not re.findall(r"\]\([^)]*evidence/[^)]*", page.read_text()), page
        for link in re.findall(r"\]\(([^)#]*results/\w+\.md)", page.read_text()):
            assert (page.parent / link).is_file(), (page, link)


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
