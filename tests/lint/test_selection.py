"""Which rules a run has, how severe they are, and in which files."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.run import run
from fp8tune.lint.selection import Problem
from tests.each import each
from tests.lint.results import FP8, names, rules_of
from tests.sample import TP


@each(
    ("select", "ignore", "rules"),
    [
        ((), (), ["gpu-without-fp8", "fp8-without-compile"]),
        (("fp8-without-compile",), (), ["fp8-without-compile"]),
        (("FP84",), (), ["fp8-without-compile"]),
        (("crash", "slow"), (), ["gpu-without-fp8", "fp8-without-compile"]),
        ((), ("fp8-without-compile",), ["gpu-without-fp8"]),
        ((), ("crash", "slow"), []),
        (("slow", "crash"), ("FP8201",), ["fp8-without-compile"]),
    ],
)
@each("where", ["options", "settings"])
def test_select_and_ignore(configured, where, select, ignore, rules):
    if where == "options":
        configured("gpu = 'a10g'")
        options = Options(select=select, ignore=ignore)
    else:
        configured(
            f"gpu = 'a10g'\nselect = {list(select)!r}\nignore = {list(ignore)!r}"
        )
        options = Options()
    assert rules_of(run(("a.toml",), options)) == rules


@each(
    ("by", "said"),
    [
        ("slwo", "no rule, code or category 'slwo'; did you mean slow?"),
        (
            "fp8-without-compil",
            "no rule, code or category 'fp8-without-compil'; "
            "did you mean fp8-without-compile?",
        ),
        ("zzzzzz", "no rule, code or category 'zzzzzz'"),
    ],
)
@each("where", ["select", "ignore", "severity", "per-file-ignores"])
def test_unknown_selector(configured, where, by, said):
    settings = {
        "severity": f"severity = {{'{by}' = 'note'}}",
        "per-file-ignores": f"per-file-ignores = {{'a.toml' = ['{by}']}}",
    }
    root = configured(settings.get(where, f"{where} = ['{by}']"))
    with pytest.raises(Problem) as error:
        run(("a.toml",), Options())
    place = f"{root}/pyproject.toml: [tool.fp8tune] `{where}`"
    assert str(error.value) == f"{place}: {said}"


@pytest.mark.parametrize(
    ("by", "level", "expected"),
    [
        ("fp8-without-compile", "note", {"FP8201": "error", "FP8401": "note"}),
        ("FP84", "error", {"FP8201": "error", "FP8401": "error"}),
        ("crash", "warning", {"FP8201": "warning", "FP8401": "warning"}),
        ("silent", "note", {"FP8201": "error", "FP8401": "warning"}),
    ],
)
def test_severity(configured, by, level, expected):
    configured(f"gpu = 'a10g'\nseverity = {{'{by}' = '{level}'}}")
    result = run(("a.toml",), Options())
    assert {d.code: d.severity for d in result.diagnostics} == expected


@pytest.mark.parametrize(
    ("pattern", "hit"),
    [("a.toml", ["b.toml"]), ("*.toml", []), ("sub/*", ["a.toml", "b.toml"])],
)
def test_per_file_ignores(configured, pattern, hit):
    configured(f"per-file-ignores = {{'{pattern}' = ['slow']}}", **{"b.toml": FP8})
    assert [d.path for d in run((".",), Options()).diagnostics] == hit


def test_per_file_ignores_do_not_reach_the_next_file(configured):
    configured(
        "per-file-ignores = {'a.toml' = ['slow'], 'c.toml' = ['FP8101']}",
        TP + "[checkpoint]\n",
        **{"b.toml": TP, "c.toml": TP, "d.toml": FP8},
    )
    assert names(run((".",), Options())) == [
        ("a.toml", "fp8-with-tensor-parallel"),
        ("b.toml", "fp8-with-tensor-parallel"),
        ("d.toml", "fp8-without-compile"),
    ]


@each(
    ("paths", "force", "checked"),
    [
        ((".",), False, ["a.toml", "pyproject.toml"]),
        (("old/b.toml",), False, ["old/b.toml"]),
        (("old/b.toml",), True, []),
        (("a.toml", "old/b.toml"), True, ["a.toml"]),
    ],
)
def test_exclude(configured, paths, force, checked):
    configured("exclude = ['old', 'zzz/*']", **{"old/b.toml": FP8, "zzz/d.toml": FP8})
    result = run(paths, Options(force_exclude=force))
    assert [report.path for report in result.reports] == checked


def test_stdin_has_the_settings_of_its_name(configured, fp8tune):
    configured("exclude = ['old']\ngpu = 'a10g'", **{"old/x": ""})
    command = ("lint", "-", "--output-format", "concise", "-q", "--stdin-filename")
    said = fp8tune(*command, "old/b.toml", stdin=FP8.encode())
    assert said.code == 1
    assert said.out.startswith("old/b.toml:2:19: error[gpu-without-fp8]")
    said = fp8tune(*command, "old/b.toml", "--force-exclude", stdin=FP8.encode())
    assert said == (0, "", "")
