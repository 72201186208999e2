"""A trainer that a user describes in a TOML file: what it gets, and its mistakes."""

import copy
import json
import random
import re
import tomllib
import warnings
from collections import Counter
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from fp8tune.config.own_trainer import BadTrainer, add_trainer
from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.about import trainers
from fp8tune.trainers.json_schema import json_schema
from fp8tune.trainers.trainer import trainer
from tests.commands.test_schema import both
from tests.each import each

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "own_trainer"
OURS = (FOLDER / "ours.toml").read_text(encoding="utf-8")
TRAIN = (FOLDER / "train.toml").read_text(encoding="utf-8")
FIXED = (FOLDER / "fixed.toml").read_text(encoding="utf-8")
GPUS = Target("h100-sxm", 16)


@pytest.fixture
def ours(tmp_path):
    """Add a trainer from the text of its file."""

    def add(text=OURS, name="ours"):
        path = tmp_path / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        if name in trainers() and trainers()[name].own:
            del trainers()[name]
            trainer.cache_clear()
        return trainer(add_trainer(str(path)))

    return add


def faults(known, text):
    """The kinds of faults of a config, by key."""
    return [(f.facts["key"], f.kind) for f in known.load(tomllib.loads(text)).faults]


def job(known, text=FIXED, target=GPUS):
    return known.job(known.load(tomllib.loads(text)), target)


def test_the_guide_shows_the_files():
    guide = (ROOT / "docs/guides/own-trainer.md").read_text(encoding="utf-8")
    assert f"```toml\n{OURS}```" in guide
    assert f"```toml\n{TRAIN}```" in guide


def test_every_field_that_the_guide_lists_is_one(ours):
    guide = (ROOT / "docs/guides/own-trainer.md").read_text(encoding="utf-8")
    table = guide[guide.index("| for | say |") :].partition("\n\n")[0]
    fields = re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", table))
    assert len(fields) > 30
    said = tomllib.loads(OURS)["job"]
    for field in set(fields) - set(said) - {"reduces_each_micro_batch"}:
        value = "'\"x\"'" if field in ("schedule",) else "1"
        ours(f"{OURS}{field} = {value}\n", field.replace("_", "-"))


@each(
    ("config", "found"),
    [
        ('[data]\npath = "x"\n', []),
        ("[data]\n", [("data.path", "missing-key")]),
        ('[data]\npath = 3\n[model]\ndim = "8"\n', ["wrong-type"] * 2),
        ('[data]\npath = "x"\n[model]\ndim = true\n', ["wrong-type"]),
        ('[data]\npath = "x"\n[model]\nffn_factor = nan\n', ["not-a-number"]),
        ('[data]\npath = "x"\n[train]\nbatch = 0\n', ["value-out-of-range"]),
        ('[data]\npath = "x"\n[train]\ndtype = "float8"\n', ["value-not-allowed"]),
        ('[data]\npath = "x"\n[train]\nbach = 2\n', ["unknown-key"]),
        ('[data]\npath = "x"\n[trian]\n', ["unknown-key"]),
        ("train = 3\n[data]\npath = 'x'\n", ["section-not-a-table"]),
    ],
)
def test_what_is_wrong_with_a_config(ours, config, found):
    kinds = faults(ours(), config)
    assert kinds == found or [kind for _, kind in kinds] == found


MORE = """
unknown_keys = "ignored"
quoted_values = "converted"
[sections]
run = "Run"
vlm = "Vlm | None"
[classes.Run]
n = { type = "int", default = 1, min = 1 }
x = { type = "float", default = 1.0, within = "[0, 2)" }
on = { type = "bool", default = false }
names = { type = "list[str]", default = ["a"] }
weights = { type = "dict[str, float]", default = { a = inf } }
parts = { type = "list[Part]" }
inner = { type = "Part" }
sizes = { type = "list[int]", default = [1], min = 1 }
shift = { type = "int", default = -1, min = -1, nonzero = true }
old = { type = "int", default = 3, deprecated = true }
[classes.Part]
k = { type = "int", default = 2, above = 0, only_if = "n" }
n = { type = "int", default = 0 }
[classes.Vlm]
size = { type = "int", default = 5 }
[job]
learning_rate = "run.x"
[values]
ac = ["full"]
"""


@each(
    ("config", "found"),
    [
        ('run = { n = "3", x = "0.5", on = "off" }', {"run.n": 3, "run.on": False}),
        ('run = { n = "three" }', "value-not-convertible"),
        ('run = { n = "0" }', "value-out-of-range"),
        ("run = { shift = 0 }", "value-out-of-range"),
        ("run = { sizes = [2, 0] }", "value-out-of-range"),
        ("run = { nn = 1 }", "ignored-key"),
        ("run = { names = [1] }", "wrong-type"),
        ('run = { weights = { a = "b" } }', "wrong-type"),
        ("run = { parts = [{ k = 0 }] }", {"run.parts[0].k": 0}),
        ("run = { inner = { k = 7 } }", {"run.inner.k": 7, "run.inner.n": 0}),
        ("", {"vlm": False, "run.inner.k": 2, "run.names": ["a"]}),
        ("vlm = {}", {"vlm": True, "vlm.size": 5}),
        ("run = { n = 9223372036854775808 }", {}),
    ],
)
def test_types_defaults_and_what_the_trainer_converts(ours, config, found):
    loaded = ours('title = "T"\n' + MORE).load(tomllib.loads(config))
    if isinstance(found, str):
        assert [fault.kind for fault in loaded.faults] == [found]
    else:
        assert loaded.faults == []
        assert {name: loaded.values[name] for name in found} == found
    assert 2**63 not in loaded.values.values()


@both
def test_editors_have_its_schema(check, ours, tmp_path):
    schema = json_schema(ours())
    Draft7Validator.check_schema(schema)
    (tmp_path / "a.json").write_text(json.dumps(schema), encoding="utf-8")
    (tmp_path / "ours.toml").unlink()
    for name, text in (("bad", TRAIN), ("good", FIXED)):
        (tmp_path / f"{name}.toml").write_text(f"#:schema ./a.json\n{text}")
    assert check(tmp_path) == {"bad.toml": {(0, "seq_len"), (13, "")}}


def test_an_estimate_is_that_of_a_built_in_trainer_for_the_same_run(ours):
    text = OURS.replace("ffn_factor = {", "unused = {").replace(
        "round(model.ffn_factor * model.dim)", "14336"
    )
    mine = job(ours(text), FIXED.replace("50304", "128256"))
    other = """
[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 2
seq_len = 8192
[activation_checkpoint]
mode = "full"
[compile]
enable = true
components = ["model"]
"""
    theirs = job(trainer("torchtitan==0.2.2"), other)
    for fact in ("memory.peak_gib", "speed.tokens_per_second", "fp8.pays"):
        assert mine[fact] == theirs[fact]
    assert mine["memory.high_gib"] - mine["memory.low_gib"] == pytest.approx(
        0.4 * mine["memory.peak_gib"]
    )


def test_advice_sets_keys_and_not_the_accumulation_that_follows(ours):
    key = 'all = { type = "int", default = 64, min = 1 }'
    text = OURS.replace("[classes.Train]\n", f"[classes.Train]\n{key}\n")
    accum = 'grad_accum = "train.all // (train.batch * dp_shard)"'
    known = ours(f"{text}{accum}\nreduces_each_micro_batch = true\n")
    config = FIXED.replace("batch = 2\n", "batch = 16\n")
    found = job(known, config, Target("h100-sxm", 4))
    assert found["memory.advice"] == "set `train.batch = 4`"
    assert found.with_values({"train.batch": 4})["grad_accum"] == 4


def test_all_fields_that_an_estimate_lacks_are_named_at_once(fp8tune, project):
    text = re.sub("(?m)^(optimizer|ac|weight_bytes|fused) = .*\n", "", OURS)
    found = fp8tune("estimate", "fixed.toml", "--trainer", another(text))
    words = " ".join(found.out.split())
    assert (
        words.count("does not say `optimizer`, `ac`, `weight_bytes` and `fused`") == 1
    )
    assert words.count("unknown, for the same reason") == 2


def test_a_message_names_what_the_user_can_edit(fp8tune, project):
    fields = {"hidden_size": "model.heads * 65", "vocab_size": "model.vocab"}
    text = OURS
    for field, value in fields.items():
        text = re.sub(f"(?m)^{field} = .*", f'{field} = "{value}"', text)
    config = FIXED.replace("heads = 32", "heads = 33\nkv_heads = 3")
    (project / "a.toml").write_text(config.replace("50304", "50257"), encoding="utf-8")
    named = ("a.toml", "--trainer", another(text), "--output-format", "json")
    lint = fp8tune("lint", *named).json["diagnostics"]
    found = {each["rule"]: each["message"] for each in lint}
    hidden = "`hidden_size = 2145` (from `model.heads`) is not a multiple of 16"
    assert found["fp8-hidden-size-not-16"].startswith(hidden)
    assert found["fp8-vocab-size-not-16"].startswith("`model.vocab = 50257` is not")


def another(text):
    """The path of a trainer with a name of its own."""
    file = Path(f"trainers/case-{len(trainers())}.toml")
    file.write_text(text, encoding="utf-8")
    return str(file)


@each(
    ("field", "value", "said"),
    [
        (
            "precision",
            '"bfloat16"',
            '`precision` is "bfloat16" here; fp8tune knows bf16, fp8, fp16 and fp32',
        ),
        (
            "fp8_recipe",
            '"delayed"',
            '`fp8_recipe` is "delayed" here; fp8tune knows tensorwise, rowwise and '
            "rowwise_with_gw_hp",
        ),
        ("ac", '"none"', "activations without full AC, of a trainer that only a file"),
        ("weight_bytes", "1 - 5", "`weight_bytes` is -4 here, and it is at least 1"),
    ],
)
def test_values_without_an_estimate_are_named(fp8tune, project, field, value, said):
    text = re.sub(f"(?m)^{field} = .*", lambda _: f"{field} = '{value}'", OURS)
    found = fp8tune("estimate", "fixed.toml", "--trainer", another(text))
    assert said in " ".join(found.out.split())


def test_a_degree_below_1_is_unknown(ours):
    text = """
title = "T"
[sections]
parallel = "Parallel"
[classes.Parallel]
dp = { type = "int", default = -1 }
tp = { type = "int", default = 2, min = 1 }
[job]
tp = "parallel.tp"
dp_shard = "parallel.dp if parallel.dp != -1 else world_size // tp"
"""
    known = ours(text)
    found = [job(known, f"[parallel]\ndp = {dp}\n")["dp_shard"] for dp in (-1, 4)]
    assert found == [8, 4]
    assert job(known, "[parallel]\ndp = 0\n").find("dp_shard") is None


@each(
    ("degrees", "said"),
    [
        ("dp_shard = 4", "parallel degrees whose product is not the number of GPUs"),
        ("cp = 3", "parallel degrees whose product is not the number of GPUs"),
        ("tp = 2", "[job] of the trainer's file does not say `sequence_parallel`"),
        ("dp_shard = 8\ntp = 2\nsequence_parallel = true", ""),
    ],
)
def test_degrees_that_do_not_fit_the_gpus_have_no_estimate(
    fp8tune, project, degrees, said
):
    named = ("fixed.toml", "--trainer", another(f"{OURS}{degrees}\n"))
    found = fp8tune("estimate", *named, "--output-format", "json").json
    assert (found["memory"]["peak_gib"] is None) == bool(said)
    lint = fp8tune("lint", *named)
    assert said in lint.out + lint.err
    assert (" not checked because " in lint.out + lint.err) == bool(said)


def test_a_key_is_not_taken_for_a_field_of_the_same_spelling(ours):
    text = """
title = "T"
[sections]
world = "World"
[classes.World]
size = { type = "int", default = 64 }
[job]
tp = 2
dp_shard = "world_size // tp"
"""
    known = ours(text)
    assert job(known, "", GPUS)["dp_shard"] == 8
    assert job(known, "", Target()).find("dp_shard") is None


MISTAKES = [
    ("title = .*", "title = 3", "1:9: `title` must be a string"),
    ("title = .*", 'titel = "x"', "has no field `titel`; did you mean `title`?"),
    ('^data = "Data"', 'data = "Date"', "no class `Date` in [classes]; did you mean"),
    ('^data = "Data"', "", "no section has the class `Data`"),
    ('steps = { type = "int"', 'steps = { type = "in"', "no type `in`: write one"),
    ("default = 10000", "default = 0", "the default of `steps` is not at least 1"),
    ("default = 10000", 'default = "x"', "the default of `steps` is not of type int"),
    ('default = "bf16"', 'default = "bf"', "the default is not one of the allowed"),
    ("default = 10000", "only_if = 'x'", "`x` is no key of Train with type int"),
    ("default = 10000", 'within = "0 to 1"', "`within` must be an interval in quotes"),
    ("^fused", "fusd", "no field `fusd`; did you mean `fused`?"),
    ("^fused = .*", "world_size = 3", "`world_size` is given by --gpu, --world-size"),
    ("^fused = .*", "tp = [1]", "`tp` must be a key or an expression in quotes"),
    ("^fused = .*", 'tp = "open(1)"', "`tp`: no such function; there are defined"),
    ("^fused = .*", 'tp = "model.dimm"', "`model.dimm`; did you mean `model.dim`?"),
    ("^fused = .*", 'tp = "memory.fit"', "`memory.fit` is a fact; keys and fields can"),
    ("^fused = .*", "reduces_each_micro_batch = true", "needs `grad_accum`, which"),
    (
        "^layers = .*",
        'layers = "train.dtype"',
        "`layers` is a number, or true or false",
    ),
    ("(context = .*)min = 1, ", r"\1", "`seq_len` is a whole number from 1 on, but"),
    ("^fused = .*", "gradient_bytes = -4", "`gradient_bytes` is a number from 0 on"),
    ("^ffn_matrices = .*", "ffn_matrices = 0", "`ffn_matrices` is a whole number"),
    ("^precision = .*", 'precision = "train.lr"', "`precision` is text, but not"),
    ("(?s)depth = ", '"a.b" = ', "`a.b`: a key has letters, digits, - and _"),
    (r"\[job\]", "[job", "Expected ']' at the end of a table declaration"),
    ("ffn_matrices = 3", "ffn_matrices = 1e300", "`ffn_matrices` must be a key"),
]


@each(("old", "new", "said"), MISTAKES)
def test_every_mistake_is_said_with_its_place(ours, old, new, said):
    text, count = re.subn(old, new, OURS, count=1, flags=re.MULTILINE)
    assert count == 1
    with pytest.raises(BadTrainer, match=r"^\S+ours\.toml:\d+:\d+: ") as error:
        ours(text)
    assert said in str(error.value)
    assert "ours" not in trainers()


def test_a_file_of_too_many_keys_is_refused(ours):
    inner = "\n".join(f'k{n} = {{ type = "C{{next}}" }}' for n in range(9))
    classes = [
        f"[classes.C{n}]\n{inner.replace('{next}', str(n + 1))}" for n in range(7)
    ]
    last = '[classes.C7]\nk = { type = "int" }'
    head = 'title = "T"\n[sections]\na = "C0"\n'
    with pytest.raises(BadTrainer, match="4782969 keys; at most 5000 are read"):
        ours("\n".join((head, *classes, last, "[job]")))


@each(
    ("name", "said"),
    [
        ("Ours", "a trainer is called as its file"),
        ("torchtitan", "there is a trainer torchtitan already, built into fp8tune"),
    ],
)
def test_names_of_files(ours, name, said):
    with pytest.raises(BadTrainer, match=said):
        ours(OURS, name)


VALUES = [
    *(0, -1, 2**70, 1e308, float("nan"), float("inf"), True, "", "x", "int", "Model"),
    *(
        "list[Model]",
        "list[list[list[int]]]",
        "dict[str, Model]",
        "model.dim",
        "((",
        "tp",
    ),
    *("micro_batch + 1", "'a'", "world_size // 0", "len(1)", "memory.peak_gib", "\x00"),
    *("unknown.name", "[0, 1)", "a" * 3000, "9" * 2000, "-" * 1500 + "1"),
    *(
        "(" * 900 + "1" + ")" * 900,
        [],
        [1],
        ["x"],
        [[1]],
        {},
        {"a": 1},
        {"type": "int"},
    ),
]
NAMES = [
    *("x", "tp", "dp_shard", "model", "Model", "type", "default", "within", "only_if"),
    *(
        "ac",
        "world_size",
        "a.b",
        "memory",
        "",
        "é",
        "declared_gpus",
        "gemms",
        "head_dim",
    ),
]


def toml(value):
    """A value as TOML on one line."""
    if isinstance(value, dict):
        parts = (f"{json.dumps(name)} = {toml(item)}" for name, item in value.items())
        return f"{{ {', '.join(parts)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def places(value, path=()):
    yield path
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        for name, inner in parts:
            yield from places(inner, (*path, name))


def inside(value, path):
    for part in path:
        value = value[part]
    return value


def other_values(rng):
    """The file with one or two parts replaced, removed, renamed or added."""
    data = tomllib.loads(OURS)
    for _ in range(rng.choice((1, 1, 2))):
        *above, last = rng.choice([path for path in places(data) if path])
        table = inside(data, above)
        how = rng.randrange(4 if isinstance(table, dict) else 1)
        if how == 0:
            table[last] = copy.deepcopy(rng.choice(VALUES))
        elif how == 1:
            del table[last]
        elif how == 2:
            table[rng.choice(NAMES)] = table.pop(last)
        else:
            table[rng.choice(NAMES)] = copy.deepcopy(rng.choice(VALUES))
    return "".join(f"{json.dumps(k)} = {toml(v)}\n" for k, v in data.items())


def other_text(rng):
    """The file with some characters replaced, removed or repeated."""
    text = OURS
    for _ in range(rng.randint(1, 3)):
        at, size = rng.randrange(len(text)), rng.randint(1, 30)
        put = rng.choice(("", "", text[at : at + size] * 2, *"[]{}=\"',#\n 0T|"))
        text = text[:at] + put + text[at + size * (put == "") + 1 :]
    return text


def test_mutated_files_are_read_or_refused_but_never_fail(ours):
    rng, rules, counts = random.Random(5), Rules(read_builtin(), {}), Counter()
    configs = [text.encode() for text in (TRAIN, FIXED)]
    for number in range(2000):
        text = (other_text if number % 2 else other_values)(rng)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                known = ours(text, "mutated")
        except BadTrainer as error:
            placed = re.match(r"\S+mutated\.toml(:\d+:\d+)?: \S", str(error))
            counts["refused" if placed else f"no place: {error}"] += 1
            continue
        counts["read"] += 1
        for config in configs:
            check("a.toml", config, rules, GPUS, only="mutated")
            found = job(known, config.decode())
            for fact in ("memory.peak_gib", "speed.tokens_per_second", "fp8.pays"):
                found.find(fact)
        Draft7Validator.check_schema(json_schema(known))
    assert set(counts) == {"refused", "read"}
    assert min(counts.values()) > 200


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "trainers").mkdir()
    (tmp_path / "trainers/ours.toml").write_text(OURS, encoding="utf-8")
    (tmp_path / "train.toml").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "fixed.toml").write_text(FIXED, encoding="utf-8")
    (tmp_path / "run.sh").write_text("python ours.py fixed.toml\n")
    (tmp_path / "other.toml").write_text("[train]\nmixed_precision = 'fp7'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rules_by_file(outcome):
    found = outcome.json["diagnostics"]
    return {(Path(d["path"]).name, d["rule"]) for d in found}


MINE = {
    ("train.toml", "fp8-vocab-size-not-16"),
    ("train.toml", "unknown-key"),
    ("train.toml", "wrong-type"),
}


SETTING = '[tool.fp8tune]\ntrainer = "trainers/ours.toml"\n'


def test_pyproject_names_it_and_files_are_recognised(fp8tune, project):
    (project / "pyproject.toml").write_text(SETTING)
    found = fp8tune("lint", ".", "--output-format", "json")
    assert rules_by_file(found) == {*MINE, ("other.toml", "unknown-precision")}
    one = fp8tune("lint", "train.toml", "--output-format", "json")
    assert rules_by_file(one) == MINE
    assert fp8tune("schema").json["title"] == "Ours config"
    assert fp8tune("estimate", "fixed.toml", "--output-format", "json").json["fit"]


def test_its_file_is_no_config(fp8tune, project):
    (project / "fixed.toml").unlink()
    (project / "other.toml").unlink()
    for named in ((), ("--trainer", "trainers/ours.toml")):
        found = fp8tune("lint", ".", *named, "--output-format", "json")
        assert {path for path, _ in rules_by_file(found)} == {"train.toml"}
    alone = fp8tune("lint", "trainers/ours.toml")
    assert (alone.code, "a description of a trainer" in alone.err) == (2, True)


def test_a_comment_and_a_rule_may_name_it(fp8tune, project):
    (project / "rules/slow").mkdir(parents=True)
    (project / "rules/slow/long.toml").write_text(
        """
name = "long"
code = "OUR1"
summary = "Long context"
severity = "warning"
confidence = "certain"
since = "0.1.0"
trainer = "ours"
when = "train.context > 4096"
message = "context of {train.context}"
references = ["https://example.com"]
[[at]]
key = "train.context"
[[bad]]
config = "# fp8tune: trainer=ours\\n[train]\\ncontext = «8192»\\n[data]\\npath = 'x'\\n"
[[good]]
config = "# fp8tune: trainer=ours\\n[data]\\npath = 'x'\\n"
"""
    )
    (project / "pyproject.toml").write_text(SETTING)
    assert fp8tune("rules", "test", "rules").out.endswith("all as expected\n")
    rules = fp8tune("lint", "fixed.toml", "--rules", "rules", "--output-format", "json")
    assert rules_by_file(rules) == {("fixed.toml", "long")}


@each(
    ("arguments", "code", "said"),
    [
        (("lint", "train.toml", "--diff", "--unsafe-fixes"), 1, "+context = 8192"),
        (("explain", "ac", "fixed.toml"), 0, '`"full" if train.recompute else "none"`'),
        (("schema",), 0, '"title": "Ours config"'),
        (
            ("search", "fixed.toml", "--budget", "1m", "--device", "cpu"),
            2,
            "own trial cannot represent a trainer that only a file describes",
        ),
        (
            ("init", "--model", "llama3-8b", "--gpu", "h100", "--world-size", "8"),
            2,
            "start from for Ours; give --trainer kempnerforge or torchtitan",
        ),
    ],
)
def test_commands_take_its_path(fp8tune, project, arguments, code, said):
    at = arguments.index("--") if "--" in arguments else len(arguments)
    named = (*arguments[:at], "--trainer", "trainers/ours.toml", *arguments[at:])
    done = fp8tune(*named)
    assert (done.code, said in done.out + done.err) == (code, True), done
