"""``fp8tune schema``: taplo and tombi check and complete configs with it."""

import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.conftest import forget_settings
from tests.each import each
from tests.trainers.test_json_schema import SCHEMAS, cases, errors

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "editors.md"


def program(name):
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: pip install {name}")
    return found


def taplo(folder):
    """Per file the lines with problems, ``0`` and a name for an unknown key.

    taplo shows an unknown key at every line of its table.
    """
    command = [program("taplo"), "lint", "--colors", "never", "**/*.toml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = defaultdict(set)
    for message, path, line in re.findall(
        r"^error: (.*)\n *┌─ (.*):(\d+):\d+$", done.stderr, re.MULTILINE
    ):
        unknown = re.search(r"\('(.*)' w(?:as|ere) unexpected", message)
        file = Path(path).relative_to(folder).as_posix()
        found[file].add((0, unknown[1]) if unknown else (int(line), ""))
    assert bool(done.returncode) == bool(found), done.stderr
    return dict(found)


def tombi(folder):
    """Per file the lines with problems, ``0`` and a name for an unknown key."""
    report = ["--diagnostics-format", "json-lines", "--diagnostics-file", "said"]
    command = [program("tombi"), "lint", "--offline", *report, "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    found = defaultdict(set)
    for line in (folder / "said").read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        unknown = re.fullmatch(r'"(.*)" is not allowed', said["message"])
        place = said["range"]["start"]["line"]
        found[said["path"]].add((0, unknown[1]) if unknown else (place, ""))
    assert bool(done.returncode) == bool(found), done.stderr
    return dict(found)


both = pytest.mark.parametrize("check", [taplo, tombi], ids=lambda tool: tool.__name__)


@pytest.fixture
def folder(tmp_path):
    for name, schema in SCHEMAS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(schema), encoding="utf-8")
    return tmp_path


def write(folder, file, name, text):
    head = f"#:schema ./{name}.json\n"
    (folder / file).write_text(head + text.replace("#:schema", "#"), encoding="utf-8")


WRONG = {
    "kempnerforge": """\
[model]
dim = 0 #!
n_heads = "16"
dimm = 3 #?
[train]
mixed_precision = "float8" #!
batch_size = true #!
seq_len = 4096.5 #!
compile_model = "maybe" #!
max_steps = 10.0
[optimizer]
betas = [0.9, 1.5] #!
[vlm]
arch = "mot"
cross_attention_every_n_layers = 4 #!
[trian] #?
""",
    "torchtitan==0.2.2": """\
[model]
name = "llama3"
flavour = "8B" #?
[training]
local_batch_size = 0 #!
seq_len = "4096" #!
[compile]
enable = "false" #!
[activation_checkpoint]
mode = "Full" #!
[quantize.linear.float8]
recipe_name = "row" #!
recipe = "rowwise" #?
[float8] #?
""",
    "torchtitan==0.1.0": """\
[training]
batchsize = 1
seq_len = "4096" #!
[float9]
""",
}
"""Configs with marks: ``#!`` is a wrong value, ``#?`` an unknown key or table."""


def marks(text):
    for number, line in enumerate(text.splitlines(), start=2):
        if line.endswith("#!"):
            yield number, ""
        elif line.endswith("#?"):
            yield 0, re.match(r"\[?(\w+)", line)[1]


@both
def test_what_is_wrong_is_shown_at_its_key(check, folder):
    for number, (name, text) in enumerate(WRONG.items()):
        write(folder, f"{number}.toml", name, text)
    wanted = {f"{n}.toml": set(marks(text)) for n, text in enumerate(WRONG.values())}
    assert check(folder) == wanted


@both
def test_what_is_right_has_no_problems(check, folder, repository):
    for path in (repository / "configs").glob("*.toml"):
        text = path.read_text(encoding="utf-8")
        write(folder, path.name, "kempnerforge", text)
    text = '[job]\ncustom_config_module = "mine"\n[mine]\na = 1\n[model]\nb = "c"\n'
    write(folder, "module.toml", "torchtitan==0.2.2", text)
    write(folder, "old.toml", "torchtitan==0.1.0", "[mine]\na = 1\n")
    assert len(list(folder.glob("*.toml"))) > 6
    assert check(folder) == {}


@both
def test_both_refuse_what_the_schema_refuses(check, folder):
    """On configs that a generator made for the trainer's own verdicts."""
    wanted = {}
    for number, (name, raw, text) in enumerate(cases("torchtitan")):
        if number % 8 == 0:
            write(folder, f"{number}.toml", name, text)
            wanted[f"{number}.toml"] = bool(errors(name, raw))
    found = check(folder)
    assert min(list(wanted.values()).count(no) for no in (False, True)) > 40
    assert {file: file in found for file in wanted} == wanted


@both
def test_the_guide_says_how_a_folder_of_configs_gets_its_schema(check, folder):
    file = {taplo: ".taplo.toml", tombi: "tombi.toml"}[check]
    text = re.search(rf"```toml\n# {file}\n(.*?)```", GUIDE.read_text("utf-8"), re.S)[1]
    (folder / file).write_text(text, encoding="utf-8")
    name = re.search(r'path = "(.*)"', text)[1]
    (folder / "torchtitan==0.2.2.json").rename(folder / name)
    (folder / "configs").mkdir()
    for place in ("configs/a.toml", "b.toml"):
        (folder / place).write_text("[compile]\nenable = 'maybe'\n", encoding="utf-8")
    assert check(folder) == {"configs/a.toml": {(2, "")}}


@each("name", SCHEMAS)
def test_it_is_printed(fp8tune, name):
    done = fp8tune("schema", "--trainer", name)
    assert (done.code, done.err) == (0, "")
    assert done.json == SCHEMAS[name]


def test_which_trainer(fp8tune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = fp8tune("schema")
    assert (asked.code, asked.out) == (2, "")
    assert "write fp8tune schema --trainer kempnerforge; there are" in asked.err
    (tmp_path / "pyproject.toml").write_text('[tool.fp8tune]\ntrainer = "torchtitan"\n')
    forget_settings()
    assert fp8tune("schema").json["title"] == "torchtitan 0.2.2 config"
    wrong = fp8tune("schema", "--trainer", "torchtitan==0.9")
    assert (wrong.code, "no torchtitan 0.9 here: since 0.3.0" in wrong.err) == (2, True)
