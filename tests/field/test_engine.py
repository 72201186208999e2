"""What hid findings: fixes, unknown facts, rules that raise, typing errors."""

import json
from contextlib import contextmanager

import pytest

from fp8tune.config.directive import directive_of
from fp8tune.formats import parse
from fp8tune.job import Target, Unknown
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.lint.examples import lint_example, name_of, plain_config
from fp8tune.lint.rewrite import ignore
from fp8tune.lint.ruleset import Rules
from fp8tune.trainers.recognise import recognise
from fp8tune.trainers.trainer import trainer
from tests import sample
from tests.each import each
from tests.sample import NO_PIPELINE, TP

BUILTIN = read_builtin()
RULES = Rules(BUILTIN, {})


def lint(text, name="a.toml", gpu="", gpus=0, only=""):
    target = Target(gpu, gpus, "--gpu" * bool(gpu), "--world-size" * bool(gpus))
    return check(name, text.encode(), RULES, target, only=only)


def rules_of(report):
    return {found.rule for found in report.diagnostics}


TITAN = sample.TORCHTITAN.replace("8192", "2048") + "local_batch_size = 8\n"
EXPERTS = """
[model]
dim = 4096
n_layers = 32
n_heads = 32
n_kv_heads = 8
num_experts = 8
max_seq_len = 4096
[train]
batch_size = 2
seq_len = 4096
"""


@each(
    ("text", "rule", "few", "many"),
    [
        (TITAN, "fp8-without-compile", 4, 16),
        (TITAN.replace("2048", "4096"), "fp8-without-compile", 8, 0),
        (EXPERTS, "moe-with-compile", 8, 0),
    ],
)
def test_no_finding_depends_on_its_fix(text, rule, few, many):
    """The run would not fit after the fix on few GPUs: the finding says so."""
    (kept,) = (
        d for d in lint(text, gpu="H100", gpus=few).diagnostics if d.rule == rule
    )
    (fixed,) = (d for d in lint(text, gpus=many).diagnostics if d.rule == rule)
    assert kept.fix is None
    assert "no fix is offered, because then the run needs" in kept.help
    assert fixed.fix is not None


VISION = """
# fp8tune: gpu=h100 world-size=8
[model]
dim = 8192
n_layers = 80
n_heads = 64
[train]
batch_size = 8
seq_len = 4096
compile_model = false
mixed_precision = "fp8"
activation_checkpointing = "full"
[optimizer]
name = "{}"
[vision_encoder]
type = "random"
feature_dim = 384
num_tokens = 64
[vlm]
arch = "{}"
max_text_len = 128
"""


@each("optimizer", ["muon", "adamw"])
@each("arch", ["mot", "cross_attention", "joint_decoder"])
def test_a_size_that_no_model_covers_ends_no_check(optimizer, arch):
    report = lint(VISION.format(optimizer, arch))
    assert report.bugs == ()
    assert {"fp8-without-compile", "vlm-without-data"} <= rules_of(report)


@contextmanager
def without(known, name):
    """Make a name unknown in all jobs of a trainer's version."""

    def unknown(_):
        raise Unknown(name)

    known.vocabulary.plans[name] = unknown
    yield
    del known.vocabulary.plans[name]


def read_by(rule, known):
    """The computed names that any text of a rule reads."""
    templates = [rule.message, rule.help, *map(rule.label, range(len(rule.at)))]
    templates += [each for fix in rule.fixes for each in (fix.title, fix.changes)]
    words = known.vocabulary
    read = {name for each in templates for name in (*each.names, *rule.names)}
    return sorted(name for name in read if words.key(name) in words.computed)


def job_of(rule, example):
    """The job of an example, and the version of its trainer."""
    document = parse(plain_config(example).encode(), name_of(example))
    kind = recognise(document.values, explicit=True, form=example.format).trainer
    known = trainer(kind or rule.trainers[0])
    document.read_as(known.about.reads)
    target = directive_of(document).complete(Target())
    return known, lambda: known.job(known.load(document.values), target)


@each("rule", [rule for rule in BUILTIN if rule.source and not rule.same])
def test_an_unknown_fact_costs_no_finding_whose_condition_holds(rule):
    """Of every rule, with each name that its texts read unknown in turn."""
    for example in rule.bad[:2]:
        known, job = job_of(rule, example)
        for name in read_by(rule, known):
            with without(known, known.vocabulary.key(name)):
                report = lint_example(example, RULES)
                assert report.bugs == ()
                try:
                    holds = rule.when.evaluate(job())
                except Unknown:
                    continue
                assert rule.name in rules_of(report) or not holds, name


@each(
    ("name", "text"),
    [
        ("a.yaml", "{automodel}distributed: {{tp_size: -1, cp_size: none}}\n"),
        ("a.toml", "{titan}[parallelism]\ntensor_parallel_degree = -6\n"),
    ],
)
def test_degrees_that_no_mesh_has_raise_nothing(name, text):
    automodel = """
recipe: TrainFinetuneRecipeForNextTokenPrediction
model: {pretrained_model_name_or_path: Qwen/Qwen2.5-7B}
fp8: {enabled: true, enable_fsdp_float8_all_gather: true}
"""
    titan = f"{TITAN}[float8]\nenable_fsdp_float8_all_gather = true\n"
    for gpus in (1, 8, 24):
        report = lint(text.format(automodel=automodel, titan=titan), name, "h100", gpus)
        assert not report.bugs


OF_TP = NO_PIPELINE.replace("pp", "tp")
ASKS = "{memory.peak_gib}"
PARTS = {
    "condition": ('"tp > 1"', '"memory.peak_gib > 0 or tp > 1"'),
    "message": ("tp is {tp}", f"tp is {{tp}} {ASKS}"),
    "help": ("[[at]]", f'help = "{ASKS}"\n[[at]]'),
    "label": ('key = "tp"', f'key = "tp"\nlabel = "{ASKS}"'),
    "fix": (
        'key = "tp"',
        f'key = "tp"\n[[fix]]\nsafety = "safe"\ntitle = "{ASKS}"\nset = {{ tp = "1" }}',
    ),
}
"""What makes each part of a rule ask for the field that raises."""


@pytest.fixture
def raises(monkeypatch):
    """Make a field raise what no rule expects, in the trainer's own functions."""

    def overflow(*_):
        raise KeyError("a table of the trainer")

    plans = trainer("kempnerforge").vocabulary.plans
    monkeypatch.setitem(plans, "memory.peak_gib", overflow)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("output_format", ["full", "json", "concise"])
def test_a_rule_that_raises_costs_itself_alone(
    project, fp8tune, raises, part, output_format
):
    rule = OF_TP.replace(*PARTS[part]).replace("no-pipeline", f"of-{part}")
    project({"a.toml": TP, f"pack/silent/of-{part}.toml": rule})
    ended = fp8tune(
        "lint", "a.toml", "--rules", "pack", "--output-format", output_format
    )
    assert ended.code == 2
    said = [line for line in ended.err.splitlines() if f"rule of-{part}" in line]
    assert len(said) == 1
    assert said[0].startswith(f"fp8tune: a.toml: KeyError in rule of-{part}, fp8tune.")
    assert said[0].endswith("please report this line with the file")
    assert "fp8-with-tensor-parallel" in ended.out
    kept = part == "fix"
    assert ("tp is 4" in ended.out) is kept
    if output_format == "json":
        found = {d["rule"]: d for d in json.loads(ended.out)["diagnostics"]}
        assert not kept or found["of-fix"]["fix"] is None


FORGE_TYPO = """
[model]
vocab_size = 50257
[train]
mixed_precision = "Fp8"
activation_checkpoint = "selective"
seq_len = 1024
[distributed]
tp = 2
"""
TITAN_TYPO = """
[model]
name = "llama3"
flavor = "8B"
converters = ["float8"]
[training]
seq_len = 8192
[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
recipe_name = "rowwise"
"""
TITAN_TEXT = """
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 4
global_batch_size = "10"
seq_len = 1024
[parallelism]
data_parallel_shard_degree = 8
"""
AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: Qwen/Qwen2.5-7B
fp8:
  enabled: true
  recipe_name: Rowwise
  precompute_float8_dynamic_scale_for_fsdp: true
"""
MEGATRON = """\
torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 \\
  --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 128 --train-iters 1000 --lr 3e-4 --bf16 \\
  --tokenizer-type NullTokenizer --vocab-size 32000 --mock-data \\
  --fp8-format Hybrid --fp8-recipe delayed --first-last-layers-bf16
"""
AXOLOTL = f"{sample.AXOLOTL}fp8: true\ntorch_compile: false\nbf16: Auto\n"
LAUNCH = """\
distributed_type: DEEPSPEED
mixed_precision: fp8
num_processes: 8
deepspeed_config:
  zero_stage: 2
fp8_config:
  backend: TE
  amax_history_length: 16
"""
LLAMA = sample.LLAMAFACTORY.replace("sft", "SFT")
LLAMA += "output_dir: saves/a\nbf16: true\nfp8: true\n"
TITAN_CASE = sample.TORCHTITAN.replace("llama3", "Llama3")
TITAN_OLD = TITAN_CASE.replace("Llama3", "llama3").replace("quantize.linear.", "")
TITAN_CASE += """
[parallelism]
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "auto"
"""
TITAN_OLD += """
[float8]
enable_fsdp_float8_all_gather = true
filter_fqns = ["output"]
[compile]
enable = true
"""
LAUNCH_TYPO = """\
distributed_type: FSDP
mixed_precision: fp8
num_processes: 8
fsdp_confg:
  fsdp_version: 2
fp8_confg:
  backend: AO
"""
ONCE = {
    "fp8": '`train.mixed_precision` is "fp8"',
    "converter": '`model.converters[0]` is "quantize.linear.float8"',
}
LOWER = LAUNCH.replace("length", "len").replace("TE", "te")
HIDDEN = [
    (
        *(LOWER, ("backend: te", "backend: TE"), "te-options-lost-with-deepspeed"),
        '`fp8_config.backend` is "TE"',
    ),
    (FORGE_TYPO, ("Fp8", "fp8"), "fp8-vocab-size-not-16", ONCE["fp8"]),
    (
        *(TITAN_TYPO, ('["float8', '["quantize.linear.float8')),
        *("fp8-all-gather-with-recipe", ONCE["converter"]),
    ),
    (
        *(TITAN_TEXT, ('"10"', "10"), "global-batch-not-divisible"),
        "`training.global_batch_size` is 10",
    ),
    (MEGATRON, ("Hybrid", "hybrid"), "refused-settings", 'is "hybrid"'),
    (
        *(LAUNCH, ("length", "len"), "te-options-lost-with-deepspeed"),
        "`fp8_config.amax_history_length` is `amax_history_len`",
    ),
    (LLAMA, ("SFT", "sft"), "fp8-lost-on-transformers-5", '`stage` is "sft"'),
    (
        *(TITAN_CASE.replace("Llama3", "llama3").replace("float8", "flaot8", 1),),
        *(("flaot8", "float8"), "fp8-without-compile", ONCE["converter"]),
    ),
    (
        *(LAUNCH_TYPO, ("confg", "config"), "fp8-with-loading-on-one-rank"),
        "`fsdp_confg` is `fsdp_config` and `fp8_confg` is `fp8_config`",
    ),
]


@each(("text", "correction", "rule", "once"), HIDDEN)
def test_one_typing_error_hides_no_other_finding(text, correction, rule, once):
    """It is the finding of the corrected text, with a note."""
    before = lint(text, named(text)).diagnostics
    (found,) = (d for d in before if d.rule == rule)
    corrected = text.replace(*correction)
    (after,) = (d for d in lint(corrected, named(text)).diagnostics if d.rule == rule)
    note = f"{once})"
    assert found.message.startswith(f"{after.message} (once ")
    assert found.message.endswith(note)
    assert [x.text for x in found.labels] == [x.text for x in after.labels]
    assert found.severity == after.severity


def test_a_table_of_another_release_counts_where_it_belongs():
    text = f"# fp8tune: trainer=torchtitan==0.2.2\n{TITAN_OLD}"
    found = [(d.rule, d.once) for d in lint(text, gpus=8).diagnostics]
    moved = ONCE["converter"], "`float8` is `quantize.linear.float8`"
    assert found == [
        ("value-not-allowed", ()),
        ("unknown-key", ()),
        ("fp8-scales-one-by-one", moved),
    ]


TENSOR = "`parallelism.tensor_paralell_degree` is `tensor_parallel_degree`"


@each(
    ("text", "overrides", "expected"),
    [
        (
            TITAN_CASE.replace("Llama3", "llama3").replace("auto", "always"),
            ("--parallelism.tensor_paralell_degree", "3", "--compile.no_enabel"),
            [
                ("unknown-key", ()),
                ("fp8-without-compile", ()),
                ("sequence-not-divisible", (TENSOR,)),
                ("unknown-key", ()),
                ("fp8-tensor-parallel-gathers-bf16", (TENSOR,)),
                ("degrees-do-not-multiply", (TENSOR,)),
            ],
        ),
        (
            TITAN_OLD.replace("[float8]", "[quantize.linear.float8]"),
            ("--model.converters=float8", "--compile.no_enable"),
            [
                ("value-not-allowed", ()),
                ("fp8-scales-one-by-one", (ONCE["converter"],)),
                ("fp8-without-compile", (ONCE["converter"],)),
            ],
        ),
        (
            "[train]\nmixed_precision = 'bf16'\n",
            ("--train.compile_modl=False", "--train.mixed_precision=Fp8"),
            [
                ("unknown-key", ()),
                (
                    "fp8-without-compile",
                    (ONCE["fp8"], "`train.compile_modl` is `compile_model`"),
                ),
                ("unknown-precision", ()),
            ],
        ),
    ],
)
def test_a_typing_error_on_the_command_line_hides_nothing(text, overrides, expected):
    target = Target("", 8, "", "--world-size")
    report = check("a.toml", text.encode(), RULES, target, overrides=overrides)
    assert [(d.rule, d.once) for d in report.diagnostics] == expected


ON = '{{"enabled": true}}'


def test_a_config_that_runs_is_not_refused_for_what_was_meant():
    text = '{{"train_batch_size": 8, "bf16": ON, "{}": ON}}'.replace("ON", ON)
    found = {d.rule: d for d in lint(text.format("fp61"), "ds.json").diagnostics}
    once = found["deepspeed-refuses-value"]
    assert once.message.endswith("(once `fp61` is `fp16`)")
    assert (once.category, once.severity) == ("rejected", "warning")
    (refused,) = lint(text.format("fp16"), "ds.json").diagnostics
    assert refused.severity == "error"


def named(text):
    """A file name of the format of a text."""
    toml = "a.toml" if text.lstrip().startswith("[") else "a.yaml"
    return "a.sh" if text.startswith("torchrun") else toml


def test_a_finding_stands_where_its_key_is_misspelt(project, fp8tune):
    text = """
[train]
mixed_precision = "fp8"
compile_modle = false
"""
    (found,) = (d for d in lint(text).diagnostics if d.rule == "fp8-without-compile")
    assert [label.region for label in found.labels] == [(4, 17, 4, 22), (3, 19, 3, 24)]
    assert found.once == ("`train.compile_modle` is `compile_model`",)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        # two keys that cannot both be meant
        ("a.toml", "[train]\ncompile_modle = false\ncompile_modl = true\n"),
        # near two modes of the trainer
        ("a.yaml", "mixed_precision: bf16_with_fp8_mixed\n"),
        # the key of another section may or may not be meant
        (
            "a.toml",
            '[model]\nmixed_precision = "fp8"\n[train]\ncompile_model = false\n',
        ),
        # accepted as it stands
        ("a.toml", '[train]\nmixed_precision = "fp8"\n'),
    ],
)
def test_what_is_not_sure_is_not_taken_for_meant(path, text):
    only = "megatron_bridge" if path == "a.yaml" else "kempnerforge"
    report = lint(text, path, gpu="H100", gpus=8, only=only)
    assert [d for d in report.diagnostics if d.once] == []


def test_an_ignored_finding_is_ignored_once_the_value_is_fixed():
    text = FORGE_TYPO.replace(
        "tp = 2", "tp = 2  # fp8tune: ignore[fp8-with-tensor-parallel]"
    )
    names = rules_of(lint(text))
    assert names.isdisjoint({"fp8-with-tensor-parallel", "unused-ignore"})


def test_ignored_typing_errors_show_nothing_more():
    done = ignore(FORGE_TYPO.encode(), lambda data: lint(data.decode()), "")
    assert done.report.diagnostics == []
    assert b"fp8-with-tensor-parallel" not in done.data


ANNOUNCED = {
    "forge.toml": FORGE_TYPO,
    "auto.yaml": AUTOMODEL,
    "launch.yaml": LAUNCH,
}


@pytest.mark.parametrize("name", ANNOUNCED)
def test_what_the_fixes_announce_is_what_they_do(project, fp8tune, name):
    project({name: ANNOUNCED[name]})
    said = fp8tune("lint", name).out
    announced = [_number(line) for line in said.splitlines() if "can fix" in line]
    safe = fp8tune("lint", name, "--fix", "--diff")
    unsafe = fp8tune("lint", name, "--unsafe-fixes", "--diff")
    done = [_number(line) for each in (safe, unsafe) for line in _fixed(each)]
    if "can fix" in said.replace("--unsafe-fixes", "", 1) and len(announced) == 2:
        assert done == [announced[0], sum(announced)]
    else:
        assert set(done) == set(announced)


def _fixed(ended):
    return [line for line in ended.err.splitlines() if line.startswith("would fix")]


def _number(line):
    return int(next(word for word in line.split() if word.isdigit()))


FLOAT8 = """[compile]
enable = true
[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
"""
MOOT = [
    (
        "a.toml",
        f"{TITAN}{FLOAT8}PRECOMPUTE_FLOAT8_DYNAMIC_SCALE_FOR_FSDP = true\n",
        {"unknown-key", "fp8-head-not-compiled"},
    ),
    (
        "a.toml",
        "[model]\ndim = 512\nMAX_SEQ_LEN = 8192\n[train]\nseq_len = 8192\n",
        {"unknown-key"},
    ),
    (
        "a.yaml",
        "model_name_or_path: Qwen/Qwen3-8B\nstage: SFT\nfinetuning_type: full\n"
        "dataset: d\ntemplate: qwen3\noutput_dir: o\nfp8: true\n",
        {"value-not-listed", "fp8-lost-on-transformers-5"},
    ),
]


@each(("name", "text", "rules"), MOOT)
def test_nothing_is_said_of_the_default_of_a_misspelt_key(name, text, rules):
    """No such run starts: the meant key has a value, and that one is judged."""
    assert rules_of(lint(text, name)) == rules


def test_a_safe_fix_removes_nothing_because_of_a_slip_elsewhere(project, fp8tune):
    folder = project({"a.yaml": MOOT[2][1]})
    fp8tune("lint", "a.yaml", "--fix")
    assert (folder / "a.yaml").read_text() == MOOT[2][1].replace("SFT", "sft")
