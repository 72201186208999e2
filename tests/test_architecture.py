"""Imports point one way, and lint starts light."""

import ast
import functools
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "fp8tune"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
)
HEAVY = {"torch", "torchao", "triton", "optuna", "numpy", "rich", "tomlkit", "pydantic"}
HEAVY |= {"matplotlib", "jinja2", "yaml", "pygls", "lsprotocol"}
LIGHT = (
    "formats",
    "conditions",
    "trainers",
    "facts",
    "config",
    "words",
    "lint",
    "fields",
    "job",
    "cli",
    "program",
    "suggest",
    "atomic",
    "streams",
    "commands.lint",
)
CORE = ("facts", "formats", "job", "suggest", "trainers", "words")
LINT = (*CORE, "atomic", "conditions", "config", "fields", "lint")
ALLOWED = {
    "formats": ("formats",),
    "suggest": (),
    "atomic": (),
    "streams": (),
    "studies": (),
    "curves": (),
    "extras": (),
    "completion": ("lint", "facts", "estimate", "studies", "trainers"),
    "fields": (),
    "job": ("fields",),
    "conditions": ("conditions", "job"),
    "facts": ("facts", "job", "suggest", "atomic", "studies", "_index"),
    "build_hook": ("lint",),
    "trainers": (*CORE, "_index", "conditions"),
    "words": ("job",),
    "config": (*CORE, "conditions", "config", "fields"),
    "lint": (*LINT, "_index"),
    "estimate": (*CORE, "config", "estimate", "lint"),
    "lsp": (*CORE, "config", "estimate", "lint", "lsp", "studies"),
    "phases": ("config", "words", "phases", "lint", "trainers", "job", "formats"),
    "trials": ("trials",),
    "search": (
        *LINT,
        "curves",
        "estimate",
        "runners",
        "search",
        "streams",
        "studies",
        "trials",
    ),
    "verify": (*LINT, "curves", "streams", "studies", "verify"),
    "report": (
        "words",
        "report",
        "verify",
        "search",
        "trials",
        "lint",
        "facts",
        "job",
        "atomic",
        "formats",
        "studies",
    ),
    "doctor": ("doctor", "runners", "trials", "facts", "job", "trainers", "extras"),
    "runners": (
        "runners",
        "config",
        "trials",
        "trainers",
        "facts",
        "job",
        "suggest",
        "atomic",
        "formats",
        "verify",
    ),
}
"""What each room may import of fp8tune."""


def path_of(module):
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@functools.cache
def imports(module):
    """Every module that is imported anywhere in a module, also within functions."""
    found = set()
    for node in ast.walk(ast.parse(path_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found.add(node.module)
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found |= {inner} & set(MODULES)
    return found


def inside(module, room):
    return module == f"fp8tune.{room}" or module.startswith(f"fp8tune.{room}.")


READERS = ("formats.yaml", "formats.json")
"""Readers that need a package of their own; ``formats.parse`` finds them by name."""


def test_what_lint_needs_imports_nothing_heavy():
    light = [
        module
        for module in MODULES
        if any(inside(module, room) for room in LIGHT)
        and not any(inside(module, room) for room in READERS)
    ]
    heavy = {m: {name.split(".")[0] for name in imports(m)} & HEAVY for m in light}
    assert {module: names for module, names in heavy.items() if names} == {}


OUTSIDE = {
    "fp8tune": ("benchmarks", "tests", "tools"),
    "tests": ("benchmarks",),
    "tests/support": ("benchmarks", "tools"),
    "tools": ("benchmarks",),
}
"""What folders of the repository may not import."""


@pytest.mark.parametrize("folder", OUTSIDE)
def test_what_is_installed_or_tested_needs_no_benchmark(folder):
    wrong = [
        f"{path}: {name}"
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
        if name.partition(".")[0] in OUTSIDE[folder]
    ]
    assert wrong == []


def test_arrows_point_one_way():
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        for room, others in ALLOWED.items()
        if inside(module, room)
        for name in imports(module)
        if name.startswith("fp8tune.") and not any(inside(name, to) for to in others)
    ]
    assert wrong == []


DECIDING = [
    f"fp8tune.search.{name}"
    for name in (
        *("answer.choice", "answer.decide", "answer.findings"),
        *("history", "statistics"),
    )
]


def test_the_report_decides_nothing():
    """It reads the answer that the search stored."""
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        if inside(module, "report")
        for name in imports(module)
        if name in DECIDING
    ]
    assert wrong == []


TOML_ITSELF = {
    "fp8tune.config.own_trainer.file": "trainers are TOML files",
    "fp8tune.lint.packs": "rules are TOML files",
    "fp8tune.config.settings": "pyproject.toml",
}


def test_only_what_is_of_toml_alone_knows_the_format_of_configs():
    users = {
        module
        for module in MODULES
        if any(inside(name, "formats.toml") for name in imports(module))
        and not inside(module, "formats.toml")
    }
    assert users == {*TOML_ITSELF, "fp8tune.formats"}


def test_the_other_formats_are_known_by_their_names_alone():
    users = [
        module
        for module in MODULES
        for room in READERS
        if any(inside(name, room) for name in imports(module))
        and not inside(module, room)
    ]
    assert users == []


def test_only_what_runs_real_trials_knows_the_runners():
    users = [
        module
        for module in MODULES
        if inside(module, "search")
        and any(inside(name, "runners") for name in imports(module))
    ]
    names = ("dry_run", "local_workers", "prepare", "real_trials")
    assert users == [f"fp8tune.search.{name}" for name in names]


def test_no_module_imports_a_command():
    users = [m for m in MODULES if any(inside(name, "commands") for name in imports(m))]
    assert users == []


LATE = {
    ("cli", "program"): "lint of paths alone starts without click",
    ("conditions.python_syntax", "conditions"): "rules of a wheel lie ready as trees",
    ("formats.toml.spans", "formats.toml.document"): "few texts need a second parser",
    ("trainers.unknown_keys", "trainers.trainer"): "the name of a type",
}
"""Modules that are imported only in a function by what they import, and why."""


def test_imports_have_no_cycle():
    late = {tuple(f"fp8tune.{name}" for name in pair) for pair in LATE}
    graph = {m: {n for n in imports(m) if (m, n) not in late} for m in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError
    assert {pair for pair in late if pair[1] in imports(pair[0])} == late


BORROWED = {
    ("config.own_trainer", "described"): "a user's trainer is data alone",
    ("trainers.accelerate", "hugging_face"): "its script has a Trainer of Hugging Face",
    ("trainers.accelerate", "llamafactory"): "its script may be LLaMA-Factory",
    ("trainers.automodel", "described"): "its linears are those of plain data",
    ("trainers.axolotl", "hugging_face"): "its trainer is one of Hugging Face",
    ("trainers.llamafactory", "hugging_face"): "its trainer is one of Hugging Face",
    ("trainers.megatron_bridge", "megatron_lm"): "it runs Megatron-LM",
    ("trainers.megatron_lm", "described"): "its flags are converted like plain data",
}
"""Rooms that import modules of a trainer's folder, or of what trainers share."""


def test_no_other_room_imports_a_trainer():
    folders = [path.name for path in (PACKAGE / "trainers").iterdir() if path.is_dir()]
    users = {
        (".".join(module.split(".")[1:3]), folder)
        for module in MODULES
        for folder in folders
        if any(inside(name, f"trainers.{folder}") for name in imports(module))
        and not inside(module, f"trainers.{folder}")
    }
    assert users == BORROWED.keys()


def loaded_after(*arguments, folder):
    """The modules that a process holds after a command."""
    code = (
        f"import sys; sys.path[:0] = {[str(ROOT), *sys.path[1:]]!r}\n"
        "from fp8tune.program import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as end:\n    code = end.code\n"
        "sys.stderr.write(repr((code, sorted(sys.modules))))\n"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    ended, names = ast.literal_eval(said.stderr.split("\n")[-1])
    return ended, set(names), said.stdout


def test_estimate_loads_nothing_heavy(tmp_path):
    (tmp_path / "a.toml").write_text(CONFIG)
    ended, names, out = loaded_after("estimate", "a.toml", folder=tmp_path)
    assert (ended, bool(out)) == (1, True)
    assert names & HEAVY == set()


FORMAT_MODULES = {
    "json": {"plain_json"},
    "sarif": {"sarif", "sarif_rule"},
    "github": {"github"},
    "gitlab": {"gitlab"},
    "junit": {"junit"},
}
OF_COMMAND_LINES = {
    "fp8tune.formats.bash.words",
    "fp8tune.lint.launch",
    "fp8tune.formats.bash.shell",
    "fp8tune.trainers.call",
    "fp8tune.trainers.kempnerforge.command_line",
}
CONFIG = """\
# fp8tune: gpu=h100 world-size=8
[train]
mixed_precision = "fp8"
[distributed]
tp = 4
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a.toml"], 1),
        (["a.toml", "--output-format", "concise"], 1),
        (["good.toml"], 0),
    ],
)
def test_lint_loads_only_what_it_needs(tmp_path, arguments, code):
    (tmp_path / "a.toml").write_text(CONFIG)
    (tmp_path / "good.toml").write_text("[scheduler]\nwarmup_steps = 10\n")
    ended, names, _ = loaded_after("lint", *arguments, folder=tmp_path)
    assert ended == code
    assert names & HEAVY == set()
    assert names & {"json", "difflib", "multiprocessing", "concurrent.futures"} == set()
    ours = {name for name in names if name.split(".")[0] == "fp8tune"}
    assert ours <= set(MODULES)
    assert not ours & {"fp8tune.commands.rules", "fp8tune.lint.explain"}
    assert not ours & {"fp8tune.lint.packs", "fp8tune.lint.examples"}
    assert not ours & {"fp8tune.atomic", "fp8tune.lint.statistics"}
    assert not ours & OF_COMMAND_LINES
    assert not [name for name in ours if inside(name, "lint.formats")]
    bare = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    strange = {
        name.split(".")[0] for name in names - set(bare.stdout.split())
    } - sys.stdlib_module_names
    assert strange <= {"click", "fp8tune"}


def test_overrides_and_scripts_load_their_modules_and_nothing_heavy(tmp_path):
    (tmp_path / "a.toml").write_text(CONFIG)
    (tmp_path / "a.sh").write_text("srun python train.py a.toml --train.seq_len=8\n")
    ended, names, _ = loaded_after("lint", "--script", "a.sh", folder=tmp_path)
    assert ended == 1
    assert names & HEAVY == set()
    assert names >= OF_COMMAND_LINES


def test_a_format_is_loaded_when_asked_for(tmp_path):
    (tmp_path / "a.toml").write_text(CONFIG)
    shared = {"fp8tune.lint.formats", "fp8tune.lint.formats.address"}
    for name, own in FORMAT_MODULES.items():
        command = ("lint", "a.toml", "--output-format", name)
        ended, names, out = loaded_after(*command, folder=tmp_path)
        assert (ended, bool(out)) == (1, True)
        ours = {f"fp8tune.lint.formats.{module}" for module in own}
        assert {n for n in names if inside(n, "lint.formats")} == ours | shared
        assert names & HEAVY == set()


def test_every_command_of_the_table_is_a_module():
    from fp8tune.cli import COMMANDS

    names = {m.removeprefix("fp8tune.commands.") for m in MODULES if "commands." in m}
    assert set(COMMANDS) == names
