"""README and guides say what fp8tune does, word for word."""

import re
import shlex
from pathlib import Path

import pytest

from fp8tune.program import main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (README, *sorted((ROOT / "docs/guides").glob("*.md")))
}
TEXT = "\n".join(PAGES.values())
EXAMPLES = re.findall(r"```console\n\$ fp8tune (.*?)\n(.*?)```", TEXT, re.DOTALL)
"""Commands with what they print; a last line ``...`` stands for the rest."""
LONGEST = 210
"""Lines that a README may have."""


def run(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code, capsys.readouterr().out


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.mark.parametrize(("command", "output"), sorted(set(EXAMPLES)))
def test_example_prints_what_the_page_shows(command, output, capsys):
    printed = run(shlex.split(command), capsys)[1]
    shown = output.removesuffix("...\n")
    assert (printed if shown == output else printed[: len(shown)]) == shown


def test_there_are_examples_and_a_short_readme():
    assert len(EXAMPLES) >= 7
    assert len(PAGES[README].splitlines()) <= LONGEST


def test_search_of_the_readme_is_what_its_recorded_trials_give(
    tmp_path, monkeypatch, capsys
):
    shown = re.search(r"\$ fp8tune (search .*)\n((?:.*\n)*?)```", PAGES[README])
    command, _, budget = shown[1].partition(" --device cpu ")
    records = ROOT / "docs/rehearsal.jsonl"
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fp8tune.commands.search._write_report", lambda *_: None)
    replay = f"{command} {budget} --runner replay --records {records} --diff"
    printed = iter(run(shlex.split(replay), capsys)[1].splitlines())
    lines = [line for line in shown[2].splitlines() if line != "..."]
    assert [line for line in lines if line not in printed] == []


def test_sample_configs_are_clean_for_their_target(capsys):
    code, output = run(["lint", "configs"], capsys)
    assert code == 0
    assert output.splitlines()[0] == "no findings in 6 files"


def test_rule_of_the_guide_passes_its_own_examples(tmp_path, capsys):
    text = re.search(r"```toml\n# lint-rules/(\S+)\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / text[1]
    path.parent.mkdir()
    path.write_text(text[2], encoding="utf-8")
    assert run(["rules", "test", str(tmp_path)], capsys) == (
        0,
        "1 rule, 2 examples: all as expected\n",
    )


def test_category_table_names_every_folder_of_rules():
    folders = {path.name for path in (ROOT / "rules").iterdir()} - {"run"}
    text = (ROOT / "docs/guides/lint.md").read_text(encoding="utf-8")
    assert folders == set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))


GENERATED = re.compile(
    r"(rules|causes|keys|facts|commands|evidence)/\w+\.md"
    r"|(myths|start|changelog|concepts/glossary|reference/versions)\.md"
)
"""Pages of the built site alone: its build checks the links to them."""


@pytest.mark.parametrize("page", [*PAGES, *sorted((ROOT / "docs").glob("*.md"))])
def test_links_lead_to_files(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    links = [link for link in links if not GENERATED.match(link.lstrip("./"))]
    assert [link for link in links if not (page.parent / link).exists()] == []
