"""A whole run: files, bad options and settings, many files."""

import pytest

from fp8tune.config.settings import Options
from fp8tune.lint.run import SHARE, run
from fp8tune.lint.selection import Problem
from fp8tune.trainers.about import trainers
from tests.lint.results import FP8
from tests.sample import TP, WARNING


def test_what_cannot_be_read_does_not_stop_the_rest(project):
    project(
        {"a.toml": TP, "big.toml": "#" * (2 << 20), "sub/big.toml": "#" * (2 << 20)}
    )
    result = run(("nosuch.toml", "a.toml", "big.toml", "sub"), Options())
    assert result.unread == [
        "nosuch.toml: No such file or directory",
        "big.toml: a file of more than 1 MiB is not a train config",
    ]
    assert [(r.path, r.skipped, len(r.diagnostics)) for r in result.reports] == [
        ("a.toml", "", 1),
        ("sub/big.toml", "a file of more than 1 MiB is not a train config", 0),
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(gpu="h1000"), "no GPU named 'h1000'; did you mean h100?"),
        (
            Options(trainer="kempnerforg"),
            "no trainer named 'kempnerforg'; did you mean kempnerforge?",
        ),
        (
            Options(trainer="x"),
            f"no trainer named 'x'; known: {', '.join(trainers())}",
        ),
        (Options(packs=("nosuch",)), "nosuch: no such folder of rules"),
    ],
)
def test_bad_options(project, options, said):
    project({"a.toml": FP8})
    with pytest.raises(Problem) as error:
        run(("a.toml",), options)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("setting", "option", "path", "skipped"),
    [
        ("", "", "a.toml", "a Python project file"),
        ("trainer = 'kempnerforge'", "", "a.toml", ""),
        ("", "kempnerforge", "a.toml", ""),
    ],
)
def test_trainer(configured, setting, option, path, skipped):
    configured(setting, "[project]\nname = 'x'\n")
    result = run((path,), Options(trainer=option))
    kept = [(report.path, report.skipped) for report in result.reports]
    unread = path == "a.toml" and bool(skipped)
    assert (("a.toml", skipped) in kept, bool(result.unread)) == (not unread, unread)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.toml",), "a.toml: no train config of a known trainer: not TOML"),
        (
            ("pyproject.toml", "b.toml"),
            "pyproject.toml: no train config of a known trainer: a Python project file",
        ),
        (("a.toml", "--force-exclude"), ""),
        ((".",), ""),
        (("empty", "--require-configs"), "no train configs in empty"),
        (("a.toml", "--require-configs", "--force-exclude"), "no train configs in a"),
    ],
)
def test_what_is_named_must_be_a_train_config(project, fp8tune, arguments, said):
    files = {"a.toml": "[package\n", "pyproject.toml": "[project]\n", "b.toml": TP}
    (project(files) / "empty").mkdir()
    ended = fp8tune("lint", *arguments, "--fail-on", "never")
    assert (ended.code, len(ended.err.splitlines())) == (2 * bool(said), bool(said))
    assert ended.err.startswith(f"fp8tune: {said}" if said else "")
    checked = "b.toml" in arguments or arguments == (".",)
    assert checked == ("b.toml:4:6" in ended.out)


@pytest.mark.parametrize(
    ("setting", "option", "codes"),
    [
        ("", (), (0, 0)),
        ("fail-on = 'warning'", ("--fail-on", "error"), (0, 0)),
        ("", ("--fail-on", "warning"), (1, 1)),
        ("fail-on = 'never'", (), (0, 0)),
    ],
)
def test_a_project_says_what_it_fails_on(configured, fp8tune, setting, option, codes):
    """Each file by its own project; the other one has no settings."""
    project = {"other/pyproject.toml": "[tool.fp8tune]\n", "other/b.toml": WARNING}
    configured(setting, WARNING, **project)
    ended = [fp8tune("lint", path, *option).code for path in ("a.toml", "other/b.toml")]
    assert tuple(ended) == codes
    assert fp8tune("lint", ".", *option).code == max(codes)


MANY = 3 * SHARE


@pytest.fixture
def cores(monkeypatch):
    """As many cores as many files have shares."""
    monkeypatch.setattr("fp8tune.lint.run.cores", lambda: 3)


@pytest.mark.usefixtures("cores")
def test_many_files_are_shared_out_and_come_back_in_order(project):
    files = {f"{number:04}.toml": TP for number in range(MANY)}
    project({**files, "0007.toml": FP8, "0030.toml": "[project]\nname = 'x'\n"})
    result = run((".", "nosuch.toml"), Options())
    assert [report.path for report in result.reports] == sorted(files)
    assert result.unread == ["nosuch.toml: No such file or directory"]
    assert [d.rule for d in result.diagnostics] == [
        "fp8-without-compile" if path == "0007.toml" else "fp8-with-tensor-parallel"
        for path in sorted(files)
        if path != "0030.toml"
    ]
    assert result.reports[30].skipped == "a Python project file"


@pytest.mark.usefixtures("cores")
def test_one_problem_among_many_files_is_said_with_its_place(project):
    files = {f"{number:04}.toml": TP for number in range(MANY)}
    root = project({**files, "pyproject.toml": "[tool.fp8tune]\nworld-size = 0\n"})
    with pytest.raises(Problem) as error:
        run((".",), Options())
    assert str(error.value) == (
        f"{root}/pyproject.toml: [tool.fp8tune] `world-size` is a number of GPUs"
    )
