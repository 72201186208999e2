"""A trainer is one folder: nothing else names it, and others may stand beside it."""

import ast
import re
import tomllib

import pytest

import fp8tune.trainers
from fp8tune.conditions import ExpressionError
from fp8tune.conditions.expression import compile_expression
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.packs import read_pack
from fp8tune.lint.ruleset import Rules
from fp8tune.lint.scope import ON_SCOPE
from fp8tune.search.plan import config_to_search, plan_for_trials
from fp8tune.search.recorded import is_kept
from fp8tune.search.write.writeback import Choice, write_back
from fp8tune.trainers.about import misnamed, named, release_of, trainers
from fp8tune.trainers.faults import kinds
from fp8tune.trainers.recognise import Kind, recognise, version_of
from fp8tune.trainers.trainer import trainer
from fp8tune.trials.space import TRAITS
from tests.each import each

NAME = re.compile(
    r"kempner|torchtitan|prime.?rl|axolotl|llama.?factory|megatron|deepspeed"
    r"|accelerate|automodel",
    re.IGNORECASE,
)
EXCEPTIONS = {
    "fp8tune/cli.py": "an example in a help text",
    "fp8tune/formats/bash/document.py": "programs that start a Python file",
}
"""Files that may name a trainer, and what for."""


def code_that_names_a_trainer(path):
    """The identifiers and texts of a module; docstrings, comments and URLs may cite."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            if not isinstance(value, str) or id(node) in prose:
                continue
            if NAME.search(re.sub(r"https://\S+", "", value)):
                yield f"{path.name}:{node.lineno}: {value[:60]}"


def test_nothing_outside_its_folder_names_a_trainer(repository):
    package = repository / "fp8tune"
    modules = [
        path
        for path in package.rglob("*.py")
        if path.relative_to(package).parts[0] != "trainers"
        or len(path.relative_to(package).parts) == 2
    ]
    assert len(modules) > 100
    found = {
        str(path.relative_to(repository)): names
        for path in modules
        if (names := list(code_that_names_a_trainer(path)))
    }
    assert found.keys() == EXCEPTIONS.keys(), found


@pytest.fixture
def toy(repository, monkeypatch):
    """Add a second trainer, with two versions, to those that are found."""
    folder = str(repository / "tests" / "data" / "trainers")
    places = [*fp8tune.trainers.__path__, folder]
    caches = (trainers, trainer)
    monkeypatch.setattr(fp8tune.trainers, "__path__", places)
    for cached in caches:
        cached.cache_clear()
    yield trainers()["toy"]
    monkeypatch.undo()
    for cached in caches:
        cached.cache_clear()


def mistakes(about):
    """Yield fields of a ``trainer.toml``, and the names there that are wrong."""
    versions = [trainer(name) for name in about.ids]
    schemas = [version.schema for version in versions]
    tables = {name for s in schemas for name in (*s.sections, *s.top_keys)}
    keys = {name for schema in schemas for name, _ in schema.dotted_keys()}
    words = versions[0].vocabulary
    commands = {release_of(version)[1] for version in about.versions}
    learned = {name for name in about.learned if "." not in name}
    yield "tables, in no schema", {*about.tables} - tables
    yield "tables, lacks", tables - {*about.tables}
    yield "learned or harmless, no table", (learned | {*about.harmless}) - tables
    yield "neither learned nor harmless", tables - learned - {*about.harmless}
    yield "learned and harmless", learned & {*about.harmless}
    yield "learned, no key", {*about.learned} - learned - keys
    yield "settings", {name for name in about.settings if not words.knows(name)}
    yield "fragments", {*about.fragments} - tables
    yield "faults", {*about.faults} - {*kinds()}
    yield "knobs without TRAITS", {knob.role for knob in about.knobs} - TRAITS.keys()
    for knob in about.knobs:
        releases = {r for name, r in knob.bounds.items() if name != "of"}
        yield f"knob {knob.role}, no release", releases - {*about.releases}
        yield f"knob {knob.role}, of", {*knob.bounds.get("of", [])} - commands
    for version in versions:
        for role, knob in version.knobs.items():
            yield from mistakes_of_knob(version, role, knob)


def mistakes_of_knob(version, role, knob):
    """Yield what of a knob does not fit one version of its trainer."""
    place, words = f"knob {role} of {version.id}", version.vocabulary
    written = {key for keys in knob.keys.values() for key in keys}
    keys = {*written, *filter(None, [knob.key])}
    yield f"{place}, no key", keys - dict(version.schema.dotted_keys()).keys()
    if not (words.knows(role) or knob.key) and version.key_of(role):
        yield f"{place}, neither a field of the job nor a key", {role}
    try:
        compile_expression(knob.needs or "1", words.knows, ON_SCOPE, words.renamed)
    except ExpressionError as error:
        yield f"{place}, needs", {str(error)}


@pytest.mark.usefixtures("toy")
@each("name", [*trainers(), "toy"])
def test_what_a_trainer_says_of_itself_is_whole(name):
    found = mistakes(trainers()[name])
    wrong = [f"{what}: {', '.join(sorted(names))}" for what, names in found if names]
    assert not wrong, f"{name}/trainer.toml: " + "\n".join(wrong)


def test_versions_are_told_by_their_name(toy):
    assert (toy.name, toy.versions, toy.ids) == (
        "toy",
        ["1.0", "2.0"],
        ["toy==2.0", "toy==1.0"],
    )
    assert trainer("toy") is trainer("toy==2.0")
    assert (trainer("toy==1.0").name, trainer("toy==1.0").version) == ("toy", "1.0")
    assert [misnamed(name) for name in ("toy", "toy==1.0", "kempnerforge")] == [""] * 3
    later = "no Toy 3.1 here: 3.0 and later have no config file"
    assert misnamed("toy==3.1") == later
    near = "no Toy 1; did you mean toy==1.0? known: 1.0, 2.0"
    assert misnamed("toy==1") == near
    near = "no Toy 2.0.5; did you mean toy==2.0? known: 1.0, 2.0"
    assert misnamed("toy==2.0.5") == near
    assert misnamed("toys").endswith("did you mean toy?")
    assert misnamed("kempnerforge==1").endswith("write kempnerforge")


@each(
    ("given", "name"),
    [
        ("prime-rl", "prime_rl"),
        ("Prime.RL==0.8.1.dev67.sft", "prime_rl==0.8.1.dev67.sft"),
        ("Kempner Forge", "kempnerforge"),
        ("torch-titan==0.2.2", "torchtitan==0.2.2"),
        ("other", "other"),
    ],
)
def test_a_trainer_is_named_by_its_letters(given, name):
    assert named(given) == name


def test_keys_choose_the_command_of_a_version():
    version = "prime_rl==0.8.1.dev67"
    whole = [f"{version}.{command}" for command in ("sft", "rl_trainer", "rl")]
    about = trainers()["prime_rl"]
    assert about.among(version) == about.among("prime_rl") == whole
    assert about.among(whole[0]) == [whole[0]]
    assert about.among("prime_rl==0.8.1") == []
    assert version_of(version, {"orchestrator": {}, "trainer": {}}) == whole[2]
    assert version_of(version, {"data": {"batch_size": 8}}) == whole[0]
    assert version_of(version, {}) == trainer(version).id == whole[0]


@each(
    ("text", "kind"),
    [
        ("[run]\nbatch = 2\n", Kind("toy==2.0", False, "a Toy config")),
        ("[run]\nfp8 = true\n", Kind("toy==1.0", False, "a Toy config")),
        (
            "[run]\nfp8 = true\n[precision]\nconverters = []\n[schedule]\nlr = 1\n",
            Kind("toy==2.0", False, "a Toy config"),
        ),
        (
            "[model]\ndim = 8\n[train]\nseq_len = 8\n",
            Kind("kempnerforge", False, "a KempnerForge config"),
        ),
        (
            "[model]\ndim = 8\n[run]\nbatch = 8\n",
            Kind("toy==2.0", False, "a Toy config"),
        ),
        (
            "[precision]\na = 1\nb = 2\nc = 3\n[x]\ny = 1\n",
            Kind("", False, "most of it is not Toy's (--trainer toy checks it)"),
        ),
    ],
)
@pytest.mark.usefixtures("toy")
def test_the_best_match_of_trainers_and_versions(text, kind):
    assert recognise(tomllib.loads(text)) == kind


RULE = """
name = "toy-{name}"
code = "T{name}"
summary = "a rule on toys"
severity = "error"
confidence = "certain"
since = "0.1.0"
{head}
message = "{message}"
references = ["https://example.com"]
[[at]]
key = "{at}"
[[bad]]
config = ""
[[good]]
config = ""
"""
RULES = {
    "fault": ('trainer = "toy"\nfault = "toy-odd-batch"', "odd {fault.value}", "fault"),
    "new": (
        'trainer = ["toy"]\nwhen = "micro_batch > 2"',
        "{key(micro_batch)}",
        "micro_batch",
    ),
    "old": (
        'trainer = "toy"\nreleases = { until = "1.0" }\n'
        'when = "precision == \\"fp8\\""',
        "old fp8",
        "run.fp8",
    ),
    "any": ('when = "hidden_size < 1024"', "small", "hidden_size"),
}


@pytest.fixture
def toy_rules(toy, tmp_path):
    folder = tmp_path / "crash"
    folder.mkdir()
    for name, (head, message, at) in RULES.items():
        text = RULE.format(name=name, head=head, message=message, at=at)
        (folder / f"toy-{name}.toml").write_text(text)
    return Rules([*read_builtin(), *read_pack(str(tmp_path))], {})


@each(
    ("text", "found"),
    [
        ("[run]\nbatch = 4\n[model]\ndim = 64\n", ["toy-new", "toy-any"]),
        ("[run]\nfp8 = true\n[model]\ndim = 2048\n", ["toy-old"]),
        ("# fp8tune: trainer=toy==2.0\n[run]\nfp8 = true\n", ["toy-any"]),
        ("[run]\nbatch = 3\n[model]\ndim = 2048\n", ["toy-fault", "toy-new"]),
    ],
)
def test_rules_are_for_trainers_and_versions(toy_rules, text, found):
    report = check("a.toml", text.encode(), toy_rules, Target())
    assert [d.rule for d in report.diagnostics if d.rule[:3] == "toy"] == found


OLD = "[run]\nbatch = 2\nglobal_batch = 8\nfp8 = true\n[model]\ndim = 2048\n"
NEW = '[run]\nbatch = 2\n[precision]\nconverters = ["x", "float8"]\n'


@each(
    ("text", "changes", "written"),
    [
        (OLD, {"precision": "bf16"}, {"run.fp8": False}),
        (NEW, {"precision": "bf16"}, {"precision.converters": ["x"]}),
        (
            NEW.replace("float8", "y"),
            {"precision": "fp8", "run.batch": 4},
            {"run.batch": 4, "precision.converters": ["x", "y", "float8"]},
        ),
        (
            OLD,
            {"grad_accum": 4, "micro_batch": 1},
            {"run.batch": 1, "run.global_batch": 4},
        ),
    ],
)
@pytest.mark.usefixtures("toy")
def test_a_field_of_several_keys_is_set_by_its_trainer(text, changes, written):
    config = config_to_search("a.toml", text.encode(), Target())
    keys = config.job.keys_for(changes)
    assert keys == written
    after = write_back(text.encode(), [Choice(*each, "why") for each in keys.items()])
    job = config_to_search("a.toml", after, Target()).job
    wanted = config.job.with_values(changes)
    fields = ("precision", "micro_batch", "grad_accum")
    assert [job[f] for f in fields] == [wanted[f] for f in fields]
    assert [wanted[name] for name in changes] == list(changes.values())


@pytest.mark.usefixtures("toy")
def test_a_trainer_may_replace_a_fact():
    target = Target("h100")
    jobs = [
        config_to_search("a.toml", text.encode(), target).job
        for text in (OLD, "[train]\nseq_len = 64\n")
    ]
    assert [job["speed.on_hopper"] for job in jobs] == ["always", True]


@pytest.mark.usefixtures("toy")
def test_a_search_freezes_what_the_trainer_calls_learned():
    new = trainer("toy")
    names = ("schedule.lr", "model.dim", "run.batch", "precision.converters", "x.y")
    assert [is_kept(new, name, "") for name in names] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert is_kept(new, "precision", "precision")


@pytest.mark.usefixtures("toy")
def test_a_plan_has_knobs_that_are_fields():
    config = config_to_search("a.toml", NEW.encode(), Target("h100"))
    plan = plan_for_trials(config, ["precision"], "cuda")
    assert [(knob.key, knob.values, knob.frozen) for knob in plan.space.knobs] == [
        ("run.batch", (1, 2, 4, 8), False),
        ("precision", ("fp8", "bf16"), False),
    ]
    assert plan.free_keys == {"run.batch", "precision", "grad_accum"}
