"""The command line from outside: exit codes, one-line errors, streams."""

import contextlib
import io
import os
import runpy
import shutil
import subprocess
import sys

import pytest

from fp8tune import __version__
from fp8tune.cli import COMMANDS, main
from fp8tune.lint.rules import CATEGORIES
from tests.sample import NO_PIPELINE

GOOD = "[train]\nseq_len = 2048\n[scheduler]\nwarmup_steps = 10\n"
WARNING = "[train]\nmax_steps = 20\n"
ERROR = '[train]\nmixed_precision = "fp8"\n[distributed]\ntp = 4\n'
NOTE = "[tool.fp8tune.severity]\nwarmup-longer-than-run = 'note'\n"
RULE = (
    NO_PIPELINE
    + """\
[[bad]]
config = '''
[distributed]
pp = «2»
[train]
grad_accum_steps = 8
'''
[[good]]
config = '''
[train]
grad_accum_steps = 8
[distributed]
pp = 1
'''
"""
)


def spawn(*arguments, folder, **options):
    """The command line in a process of its own, without this process's colours."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FORCE_COLOR", "NO_COLOR")
    }
    return subprocess.run(
        [sys.executable, "-m", "fp8tune", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        **{"capture_output": True, **options},
    )


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_every_command(fp8tune, option):
    said = fp8tune(option)
    assert (said.code, said.err) == (0, "")
    listed = [line.split()[0] for line in said.out.split("Commands:\n")[1].splitlines()]
    assert listed == list(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(fp8tune, command):
    said = fp8tune(command, "-h")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: fp8tune {command} ")


def test_version(fp8tune):
    assert fp8tune("--version") == (0, f"fp8tune, version {__version__}\n", "")


def test_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fp8tune", "--version"])
    monkeypatch.delitem(sys.modules, "fp8tune.__main__", raising=False)
    with pytest.raises(SystemExit) as end:
        runpy.run_module("fp8tune", run_name="__main__")
    said = capsys.readouterr().out
    assert (end.value.code, said) == (0, f"fp8tune, version {__version__}\n")


def test_into_a_stream_that_cannot_be_reconfigured():
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        main(["--version"])
    assert out.getvalue() == f"fp8tune, version {__version__}\n"


def test_alone_it_shows_its_help_as_help(fp8tune):
    said = fp8tune()
    assert (said.out + said.err).startswith("Usage: fp8tune [OPTIONS] COMMAND")
    assert "\n  lint " in said.out + said.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lnt"], "no command `lnt`; did you mean `lint`?"),
        (["zzz"], "no command `zzz`"),
        (["lint", "--nosuch"], "No such option '--nosuch'."),
        (["--nosuch"], "No such option '--nosuch'."),
        (["lint", "--gpuu", "h100"], "No such option '--gpuu'."),
        (["lint", "--world-size", "0"], "Invalid value for '--world-size': 0"),
        (["lint", "--world-size", "x"], "Invalid value for '--world-size': 'x'"),
        (["lint", "--output-format", "xml"], "Invalid value for '--output-format'"),
        (["lint", "--fail-on", "crash"], "Invalid value for '--fail-on'"),
        (["lint", "--gpu", "h1000"], "no GPU named 'h1000'; did you mean h100?"),
        (["lint", "--gpu", "x\ny\x1b"], r"no GPU named 'x\ny\x1b'"),
        (["lint", "--trainer", "zz"], "no trainer named 'zz'; known: kempnerforge"),
        (
            ["lint", "--select", "fp8-with-tp", "a.toml"],
            "no rule, code or category 'fp8-with-tp'",
        ),
        (
            ["lint", "--ignore", "slo", "a.toml"],
            "no rule, code or category 'slo'; did you mean slow?",
        ),
        (["lint", "--rules", "nosuch", "a.toml"], "nosuch: no such folder of rules"),
        (["explain"], "Missing argument 'RULE|KEY|FACT'."),
        (["explain", "nosuch"], "no rule, key or fact named 'nosuch'"),
        (
            ["explain", "train.seqlen"],
            "no rule, key or fact named 'train.seqlen'; did you mean train.seq_len?",
        ),
        (["rules", "test"], "Missing argument 'DIR'."),
        (["rules", "test", "nosuch"], "nosuch: no such folder of rules"),
        (["rules", "tset", "x"], "no command `tset`; did you mean `test`?"),
        (["rules", "zzz"], "no command `zzz`"),
        (["rules", "docs"], "Missing argument 'DIR'."),
        (
            ["rules", "--category", "slwo"],
            "Invalid value for '--category': 'slwo' is not one of 'rejected', 'crash', "
            "'silent', 'slow', 'memory', 'stability', 'hygiene'; did you mean `slow`?",
        ),
        (
            ["lint", "--output-format", "jsn"],
            "Invalid value for '--output-format': 'jsn' is not one of 'full', ",
        ),
        (
            ["lint", "--fail-on", "warnings"],
            "Invalid value for '--fail-on': 'warnings' is not one of 'error', "
            "'warning', 'note', 'never'; did you mean `warning`?",
        ),
        (["explain", "tp", "nosuch.toml"], "nosuch.toml: No such file or directory"),
        (["explain", "tp", "."], ".: not a regular file; pipe it in and name it -"),
        (["explain", "tp", "a.toml", "--gpu", "h1000"], "no GPU named 'h1000'"),
        (["explain", "tp", "-"], "-: no table that a known trainer reads"),
        (["explain", "use_fp8"], "no rule, key or fact named 'use_fp8'; did you"),
        (["explain", "tp", "--output-format", "yaml"], "Invalid value for '--output-"),
        (["--", "--nosuch"], "No such option '--nosuch'."),
    ],
)
def test_bad_usage_is_one_line_on_stderr(fp8tune, project, arguments, said):
    project({"a.toml": GOOD})
    outcome = fp8tune(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"fp8tune: {said}")
    assert outcome.err.count("\n") == 1
    assert outcome.err.endswith("\n")
    assert outcome.err[:-1].isprintable()


@pytest.mark.parametrize(
    ("config", "fail_on", "code"),
    [
        (GOOD, "error", 0),
        (GOOD, "note", 0),
        (WARNING, "error", 0),
        (WARNING, "warning", 1),
        (WARNING, "note", 1),
        (WARNING, "never", 0),
        (ERROR, "error", 1),
        (ERROR, "warning", 1),
        (ERROR, "note", 1),
        (ERROR, "never", 0),
    ],
)
def test_exit_code(fp8tune, project, config, fail_on, code):
    project({"a.toml": config})
    for output_format in ("full", "concise", "json"):
        said = fp8tune(
            "lint", "--fail-on", fail_on, "a.toml", "--output-format", output_format
        )
        assert said.code == code


@pytest.mark.parametrize(("fail_on", "code"), [("warning", 0), ("note", 1)])
def test_exit_code_of_notes(fp8tune, project, fail_on, code):
    project({"a.toml": WARNING, "pyproject.toml": NOTE})
    assert fp8tune("lint", "--fail-on", fail_on, "a.toml").code == code


def test_exit_code_by_default(fp8tune, project):
    project({"a.toml": WARNING, "b.toml": ERROR})
    assert [fp8tune("lint", name).code for name in ("a.toml", "b.toml")] == [0, 1]


def test_unreadable_input_is_said_and_the_rest_is_checked(fp8tune, project):
    project({"a.toml": ERROR})
    said = fp8tune("lint", "nosuch.toml", "a.toml", "--output-format", "concise", "-q")
    assert (said.code, said.err) == (
        2,
        "fp8tune: nosuch.toml: No such file or directory\n",
    )
    assert said.out.startswith("a.toml:4:6: error[fp8-with-tensor-parallel]")


def test_without_paths_the_folder_is_checked(fp8tune, project):
    project({"a.toml": GOOD, "sub/b.toml": ERROR})
    said = fp8tune("lint", "--output-format", "json")
    assert [d["path"] for d in said.json["diagnostics"]] == ["sub/b.toml"]
    assert (said.code, said.json["files"]) == (1, 2)


def test_a_folder_without_configs_is_no_error(fp8tune, project):
    project()
    assert fp8tune("lint") == (0, "no train configs found\n", "")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [(["-"], "-"), (["-", "--stdin-filename", "sub/b.toml"], "sub/b.toml")],
)
def test_stdin(fp8tune, project, arguments, path):
    project()
    said = fp8tune(
        "lint", *arguments, "--output-format", "concise", "-q", stdin=ERROR.encode()
    )
    assert said.code == 1
    assert said.out.startswith(f"{path}:4:6: error[fp8-with-tensor-parallel]")


def test_stdin_beside_files(fp8tune, project):
    project({"a.toml": GOOD})
    said = fp8tune(
        "lint", "a.toml", "-", "-", "--output-format", "json", stdin=ERROR.encode()
    )
    assert (said.json["files"], len(said.json["diagnostics"])) == (2, 1)


def test_empty_and_huge_stdin(fp8tune, project):
    project()
    assert fp8tune("lint", "-").out == (
        "no train configs found\nskipped -: no table that a known trainer reads\n"
    )
    said = fp8tune("lint", "-", stdin=b"#" * (2 << 20))
    assert said == (
        2,
        "",
        "fp8tune: -: a file of more than 1 MiB is no train config\n",
    )


@pytest.mark.parametrize(
    ("selection", "codes"),
    [
        (["--select", "FP8101,FP8302"], ["FP8302", "FP8101"]),
        (["--select", "FP8101", "--select", "FP8302"], ["FP8302", "FP8101"]),
        (["--select", "rejected,"], ["FP8101"]),
        (["--select", ""], ["FP8302", "FP8101"]),
        (["--ignore", "silent"], ["FP8101"]),
        (["--ignore", "silent,rejected"], []),
        (["--ignore", "FP83", "--ignore", "FP81"], []),
    ],
)
def test_selection(fp8tune, project, selection, codes):
    project({"a.toml": WARNING + ERROR.removeprefix("[train]\n")})
    said = fp8tune("lint", "a.toml", "--output-format", "json", *selection)
    found = said.json["diagnostics"]
    assert [d["code"] for d in found] == codes


@pytest.mark.parametrize(
    ("options", "judged"),
    [
        ([], {"gpu": True, "world-size": True}),
        (["--gpu", "H100"], {"gpu": False, "world-size": True}),
        (["--world-size", "8"], {"gpu": True, "world-size": False}),
        (["--gpu", "H100", "--world-size", "8"], {"gpu": False, "world-size": False}),
    ],
)
def test_target_options(fp8tune, project, options, judged):
    project({"a.toml": ERROR})
    said = fp8tune("lint", "a.toml", "--output-format", "json", *options)
    needs = {entry["needs"] for entry in said.json["unjudged"]}
    assert {fact: fact in needs for fact in ("gpu", "world-size")} == judged


@pytest.mark.parametrize("size", ["10000001", "99999999999999999999"])
def test_the_world_size_has_one_limit_everywhere(fp8tune, project, size):
    project({"a.toml": ERROR})
    said = fp8tune("lint", "a.toml", "--world-size", size)
    assert (said.code, said.out) == (2, "")


def test_quiet_without_findings(fp8tune, project):
    project({"a.toml": GOOD})
    assert fp8tune("lint", "-q", "a.toml") == (0, "", "")


def test_rules_are_listed(fp8tune, builtin):
    said = fp8tune("rules")
    assert (said.code, said.err) == (0, "")
    heads = [tuple(line.split()[:3]) for line in said.out.splitlines()]
    wanted = [(rule.code, rule.name, rule.severity) for rule in builtin]
    assert [head for head in heads if head in set(wanted)] == wanted


@pytest.mark.parametrize("category", CATEGORIES)
def test_rules_of_a_category(fp8tune, builtin, category):
    listed = fp8tune("rules", "--category", category, "--output-format", "json").json
    names = [rule["name"] for rule in listed["rules"]]
    assert names == [rule.name for rule in builtin if rule.category == category]
    assert fp8tune("rules", "--category", category).code == 0


def test_rules_docs(fp8tune, project):
    folder = project()
    said = fp8tune("rules", "docs", "reference")
    pages = list((folder / "reference").rglob("*.md"))
    assert said == (0, f"{len(pages)} pages in reference\n", "")
    assert {"keys.md", "facts.md", "myths.md", "slow.md"} <= {p.name for p in pages}


def test_rules_docs_into_a_file(fp8tune, project):
    project({"a.toml": GOOD})
    said = fp8tune("rules", "docs", "a.toml")
    assert (said.code, said.err.count("\n")) == (2, 1)


def test_rules_as_json(fp8tune, builtin):
    listed = fp8tune("rules", "--output-format", "json").json
    assert listed["version"] == 1
    assert [rule["name"] for rule in listed["rules"]] == [rule.name for rule in builtin]
    first = next(r for r in listed["rules"] if r["name"] == "gpu-without-fp8")
    assert first == {
        "name": "gpu-without-fp8",
        "code": "FP8201",
        "category": "crash",
        "severity": "error",
        "confidence": "certain",
        "status": "stable",
        "since": "0.1.0",
        "trainer": None,
        "summary": "FP8 on a GPU without FP8 matrix units",
        "references": next(r.references for r in builtin if r.code == "FP8201"),
    }


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("", "", 0, "1 rule, 2 examples: all as expected\n"),
        (
            "pp = 1\n",
            "pp = 2\n",
            1,
            "no-pipeline, good 1: fires\n1 rule, 2 examples: 1 failure\n",
        ),
        (
            "[[good]]\nconfig = '''\n[train]\ngrad_accum_steps = 8\n"
            "[distributed]\npp = 1\n'''\n",
            "",
            1,
            "no-pipeline: needs at least one [[bad]] and one [[good]]\n"
            "1 rule, 1 example: 1 failure\n",
        ),
    ],
)
def test_rules_test(fp8tune, project, old, new, code, said):
    project({"mine/silent/no-pipeline.toml": RULE.replace(old, new) if old else RULE})
    assert fp8tune("rules", "test", "mine") == (code, said, "")


def test_rules_test_of_a_pack_that_overrides_a_built_in_rule(fp8tune, repository):
    said = fp8tune("rules", "test", str(repository / "rules"))
    assert said.code == 0
    assert said.out.endswith(": all as expected\n")


def test_rules_test_of_a_bad_pack(fp8tune, project):
    project({"mine/silent/no-pipeline.toml": RULE.replace("pp > 1", "ppp > 1")})
    assert fp8tune("rules", "test", "mine") == (
        2,
        "",
        "fp8tune: mine/silent/no-pipeline.toml:8:9: unknown name `ppp`; "
        "did you mean `pp`?\n",
    )


def test_rules_test_shows_nothing_that_acts_on_the_terminal(fp8tune, project):
    text = RULE.replace("pp = 1\n", 'pp = 1\n"\\u001b[31m" = 1\n')
    project({"mine/silent/no-pipeline.toml": text})
    said = fp8tune("rules", "test", "mine")
    assert "\x1b" not in said.out


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("FP8101", "fp8-with-tensor-parallel (FP8101)"),
        ("train.seq_len", "train.seq_len (KempnerForge)"),
        ("memory.peak_gib", "memory.peak_gib"),
        ("micro_batch", "micro_batch"),
        ("loss-scaling", '"FP8 needs loss scaling": false'),
        ("video", "video"),
    ],
)
def test_explain(fp8tune, name, first):
    said = fp8tune("explain", name)
    assert (said.code, said.err, said.out.split("\n")[0]) == (0, "", first)


@pytest.mark.parametrize("path", ["a.toml", "-"])
def test_explain_a_config(fp8tune, project, path):
    project({"a.toml": ERROR})
    said = fp8tune("explain", "FP8101", path, stdin=ERROR.encode())
    assert (said.code, said.err) == (0, "")
    assert f"\n\nIn {path}: fires\n  line 4: FP8 does not work with" in said.out
    said = fp8tune(
        *("explain", "world_size", path, "--world-size", "8"),
        *("--gpu", "h100", "--output-format", "json"),
        stdin=ERROR.encode(),
    )
    derivation = said.json["derivation"]
    assert (derivation["value"], derivation["origin"]) == (8, "--world-size")


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[train]\nx = \n", "a.toml:2:5: Invalid value"),
        ("[tool.x]\n", "a.toml: a Python project file"),
        (
            "# " + "x" * (1 << 20),
            "a.toml: a file of more than 1 MiB is no train config",
        ),
    ],
)
def test_explain_what_is_no_config(fp8tune, project, config, said):
    project({"a.toml": config})
    assert fp8tune("explain", "tp", "a.toml") == (2, "", f"fp8tune: {said}\n")


def test_explain_with_bad_settings(fp8tune, project):
    project({"a.toml": GOOD, "pyproject.toml": "[tool.fp8tune]\ngpuu = 1\n"})
    said = fp8tune("explain", "tp", "a.toml")
    assert (said.code, said.err.endswith("did you mean `gpu`?\n")) == (2, True)


@pytest.mark.parametrize(("force", "coloured"), [("1", True), ("", False)])
def test_explain_is_plain_unless_it_may_be_coloured(
    fp8tune, monkeypatch, force, coloured
):
    monkeypatch.setenv("FORCE_COLOR", force)
    assert ("\x1b[1m" in fp8tune("explain", "FP8101").out) is coloured


class Interrupted(io.RawIOBase):
    def readable(self):
        return True

    def readinto(self, _buffer):
        raise KeyboardInterrupt


def test_interrupted(project, capsys, monkeypatch):
    project()
    monkeypatch.setattr(
        sys, "stdin", io.TextIOWrapper(io.BufferedReader(Interrupted()))
    )
    with pytest.raises(SystemExit) as end:
        main(["lint", "-"])
    assert end.value.code == 130
    assert capsys.readouterr().err.strip() == "fp8tune: interrupted"


def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return writing


@pytest.mark.parametrize(
    "arguments",
    [
        ["lint", "a.toml"],
        ["lint", "a.toml", "--output-format", "json"],
        ["lint", "many"],
        ["rules"],
        ["explain", "FP8101"],
    ],
)
def test_a_reader_that_is_gone_is_no_traceback(project, arguments):
    keys = "".join(f"key{number} = 1\n" for number in range(90))
    root = project({f"many/{n}.toml": f"[train]\n{keys}" for n in range(9)})
    project({"a.toml": GOOD})
    pipe = closed_pipe()
    said = spawn(
        *arguments,
        folder=root,
        stdout=pipe,
        stderr=subprocess.PIPE,
        capture_output=False,
    )
    os.close(pipe)
    assert said.stderr == b""
    assert said.returncode != 0


def test_a_reader_that_is_gone_does_not_look_like_a_finding(project):
    root = project({"a.toml": GOOD})
    pipe = closed_pipe()
    said = spawn(
        "lint",
        "a.toml",
        folder=root,
        stdout=pipe,
        stderr=subprocess.PIPE,
        capture_output=False,
    )
    os.close(pipe)
    assert (said.stderr, said.returncode) == (b"", 2)


def test_as_a_module_with_any_bytes_in_a_path(project):
    root = project()
    name = os.fsencode(str(root)) + b"/\xff\xfe.toml"
    with open(name, "wb") as file:
        file.write(ERROR.encode())
    said = spawn("lint", "-q", "--output-format", "concise", folder=root)
    assert (said.returncode, said.stderr) == (1, b"")
    assert said.stdout.startswith(b"\\udcff\\udcfe.toml:4:6: error[")


def test_output_that_the_terminal_cannot_encode(project):
    root = project({"a.toml": '[train]\n"漢" = 1\n'})
    said = subprocess.run(
        [sys.executable, "-m", "fp8tune", "lint", "-q", "a.toml"],
        cwd=root,
        env={
            "PYTHONIOENCODING": "ascii",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PATH": os.environ["PATH"],
        },
        capture_output=True,
        check=False,
    )
    assert (said.returncode, said.stderr) == (1, b"")
    assert rb'"\u6f22" = 1' in said.stdout


def test_as_it_is_installed(tmp_path, repository):
    """A wheel holds the rules inside the package."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repository / "fp8tune", tmp_path / "fp8tune", ignore=ignore)
    shutil.copytree(repository / "rules", tmp_path / "fp8tune" / "rules")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r});"
        "from fp8tune.lint.builtin import read_builtin, builtin_folder;"
        "print(len(read_builtin()), builtin_folder())"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    count = len(list((repository / "rules").rglob("*.toml")))
    assert said.stdout == f"{count} {tmp_path}/fp8tune/rules\n"
