"""Pages as people read them."""

from fp8tune.lint.explain import ListPage, explain
from fp8tune.lint.explain.derivation import Node
from fp8tune.lint.explain.rule import FixText
from fp8tune.lint.explain.text import WIDTH, prose, text, tree
from tests.each import each

FIXES = """
Fix for the example
  compile the model (fp8tune lint --unsafe-fixes)
    the first step takes longer
  compile it (fp8tune lint --fix)

How to show it
  expect: slower
  config:
    [train]
    seq_len = 16
  runs: 2

Evidence
"""


def test_fixes_and_experiments():
    fix = FixText("unsafe", "compile the model", "the first step takes longer")
    experiment = {"expect": "slower", "config": "[train]\nseq_len = 16\n", "runs": 2}
    page = explain("fp8-without-compile")._replace(
        fixes=[fix, FixText("safe", "compile it", "")], experiments=[experiment]
    )
    assert FIXES in text(page)


def test_the_fix_of_a_finding_in_a_config(config):
    read = config('[train]\nmixed_precision = "fp8"\ncompile_model = false\n')
    page = explain("fp8-without-compile", read)
    fix = FixText("unsafe", "set it", "minutes of compiling")
    (found,) = page.verdict.findings
    page = page._replace(
        verdict=page.verdict._replace(findings=[found._replace(fix=fix)])
    )
    assert (
        "    set it (fp8tune lint --unsafe-fixes)\n      minutes of compiling\n"
    ) in text(page)


def test_colour_is_for_headings():
    bare, coloured = text(explain("FP8101")), text(explain("FP8101"), colour=True)
    assert "\x1b" not in bare
    assert coloured.startswith("\x1b[1mfp8-with-tensor-parallel (FP8101)\x1b[0m\n")
    assert coloured.replace("\x1b[1m", "").replace("\x1b[0m", "") == bare


def test_a_config_cannot_act_on_the_terminal(config):
    read = config(
        '[model]\nmodel_type = "\\u001b[31mx\\u009b"\n[train]\nseq_len = 16\n'
    )
    shown = text(explain("model.model_type", read))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert r"\u001b[31mx\u009b" in shown


def test_a_path_cannot_act_on_the_terminal(config):
    page = explain("FP8101", config())
    page = page._replace(verdict=page.verdict._replace(path="\x1b[31m.toml"))
    assert "\x1b" not in text(page)


def test_a_list_is_a_column_of_names():
    page = ListPage("a", "b", [explain("video").entries[0]] * 2)
    line = "video.data_root  Folder of the video data set."
    assert text(page) == f"a\nb\n\n{line}\n{line}"


@each(
    ("value", "shown"),
    [
        (1.0009765, "1.00098"),
        (8030261248, "8030261248"),
        (1e-8, "1e-08"),
        (True, "true"),
        ((1, 2), "[1, 2]"),
        (None, "unset"),
    ],
)
def test_values(value, shown):
    assert tree(Node("a", value, True, "", "")) == [f"  a = {shown}"]


def test_prose_is_wrapped_by_paragraph():
    assert prose("a\nb\n\n\nc") == ["  a b", "  c"]
    assert prose("") == []
    assert max(map(len, prose("word " * 60))) <= WIDTH
