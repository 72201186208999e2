"""The reference in docs/ is what the command writes, and its links lead somewhere."""

import re
from pathlib import Path

from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.explain.reference import reference, rule_section, write
from fp8tune.lint.explain.rule import FixText, rule_page
from tests.each import each

ROOT = Path(__file__).parents[3]
PAGES = reference()
LINK = re.compile(r"\]\(([^)#]*)#([^)]+)\)")


@each("name", PAGES)
def test_the_reference_is_up_to_date(name):
    written = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run `fp8tune rules docs docs`"


def test_no_page_is_left_over():
    found = {f"rules/{path.name}" for path in (ROOT / "docs" / "rules").iterdir()}
    assert found == {name for name in PAGES if name.startswith("rules/")}


def test_every_rule_has_its_place():
    for rule in read_builtin():
        assert f"\n## {rule.name}\n" in PAGES[f"rules/{rule.category}.md"]


@each("name", PAGES)
def test_links_lead_to_headings(name):
    for page, anchor in LINK.findall(PAGES[name]):
        target = Path(name).parent / page if page else Path(name)
        text = PAGES[str(target).replace("rules/../", "")]
        headings = {
            line.lstrip("#").strip() for line in text.split("\n") if line[:1] == "#"
        }
        assert anchor in {heading.casefold() for heading in headings}


@each("name", PAGES)
def test_pages_hold_no_control_characters(name):
    assert all(line.isprintable() for line in PAGES[name].split("\n"))


def test_a_rule_with_fix_and_experiment():
    page = rule_page(next(r for r in read_builtin() if r.name == "fp8-without-compile"))
    page = page._replace(
        fixes=[FixText("unsafe", "compile", "minutes of compiling")],
        experiments=[
            {"runs": 2, "expect": "a > b", "config": "[train]\nseq_len = 1\n"}
        ],
    )
    text = "\n\n".join(rule_section(page))
    assert "\n\nFix, unsafe: compile; minutes of compiling.\n\n" in text
    assert (
        "\n\nHow to show it:\n\nruns: `2`\n\nexpect: `a > b`\n\n"
        "config:\n\n```toml\n[train]\nseq_len = 1\n```\n\n"
    ) in text


def test_write_removes_pages_of_categories_that_have_gone(tmp_path):
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "gone.md").write_text("x")
    (tmp_path / "own.md").write_text("kept")
    write({"rules/slow.md": "a", "keys.md": "b"}, str(tmp_path))
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")}
    assert files == {"rules/slow.md", "keys.md", "own.md"}
