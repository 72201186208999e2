"""Arguments, several files and one-trainer texts: what users met."""

import re
import tomllib

import pytest

from fp8tune.job import Target
from fp8tune.lint.builtin import read_builtin
from fp8tune.lint.engine import check
from fp8tune.trainers.about import trainers
from fp8tune.trainers.accelerate.arguments import reader
from tests.each import each
from tests.sample import AXOLOTL, LLAMAFACTORY

LAUNCH = """\
distributed_type: FSDP
mixed_precision: fp8
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_cpu_ram_efficient_loading: false
fp8_config:
  backend: AO
"""
SFT = """\
bf16: false
torch_compile: true
max_lenght: 4096
per_device_train_batchsize: 4
"""
QUIET = "bf16: false\ntorch_compile: true\n"
TE = """\
distributed_type: MULTI_GPU
mixed_precision: fp8
num_processes: 8
fp8_config:
  backend: TE
"""


@pytest.fixture
def findings(found):
    """Rule, path and key of what is found in files."""

    def lint(files, *arguments):
        return [(d["rule"], d["path"], d["key"]) for d in found(files, *arguments)]

    return lint


@pytest.fixture
def lint_text(rules):
    """Check the text of a config in TOML."""
    return lambda text: check("a.toml", text.encode(), rules, Target())


SLIPS = [
    ("unknown-argument", "sft.yaml", "training.max_lenght"),
    ("unknown-argument", "sft.yaml", "training.per_device_train_batchsize"),
]


@each(
    ("files", "arguments", "expected"),
    [
        (
            {"launch.yaml": LAUNCH, "sft.yaml": SFT},
            "launch.yaml --with sft.yaml",
            SLIPS,
        ),
        (  # TRL's own command hands what it does not know to accelerate, which ends
            {"launch.yaml": LAUNCH, "sft.yaml": SFT + "reward_server: x\n"},
            "launch.yaml --with sft.yaml -- sft",
            [
                ("unknown-key", "sft.yaml", "training.max_lenght"),
                ("unknown-key", "sft.yaml", "training.per_device_train_batchsize"),
                ("unknown-key", "sft.yaml", "training.reward_server"),
            ],
        ),
        (  # its script ignores it
            {"launch.yaml": LAUNCH, "sft.yaml": QUIET + "reward_server: x\n"},
            "launch.yaml --with sft.yaml -- trl/scripts/sft.py --packing true",
            [("unknown-key-ignored", "sft.yaml", "training.reward_server")],
        ),
        (  # but not on its command line
            {"launch.yaml": LAUNCH, "sft.yaml": QUIET},
            "launch.yaml --with sft.yaml -- trl/scripts/dpo.py --bta 0.1",
            [("unknown-key", "sft.yaml", "training.bta")],
        ),
        (  # a script may have arguments of its own
            {"launch.yaml": LAUNCH, "sft.yaml": QUIET + "reward_server: x\n"},
            "launch.yaml --with sft.yaml -- train.py --dataset x --seed 1",
            [],
        ),
        (  # options of accelerate launch, and the parser's own key
            {"s.yaml": "bf16: true\noutput_dir: o\nnum_processes: 8\nenv: {A: b}\n"},
            "s.yaml -- sft",
            [],
        ),
        (
            {"a.json": '{"output_dir": "o", "bf16": true, "max_step": 9}'},
            "a.json",
            [("unknown-argument", "a.json", "training.max_step")],
        ),
        (  # the same in LLaMA-Factory and Axolotl, by their own classes
            {"lf.yaml": f"{LLAMAFACTORY}bf16: true\nlearning_rat: 1.0e-5\n"},
            "lf.yaml",
            [("unknown-key", "lf.yaml", "learning_rat")],
        ),
        (  # the key by which the trainer is known
            {
                "ax.yaml": "base_modl: NousResearch/Llama-3.2-1B\n"
                "learning_rate: 1.0e-5\nbf16: true\nfp8: true\ncompile: true\n"
                "datasets:\n- path: x\n  type: alpaca\n"
                "micro_batch_size: 2\ngradient_accumulation_steps: 2\n"
            },
            "ax.yaml",
            [
                ("missing-key", "ax.yaml", "base_model"),
                ("unknown-key-ignored", "ax.yaml", "base_modl"),
                ("fp8-without-compile", "ax.yaml", "torch_compile"),
                ("fp8-linears-slower", "ax.yaml", "fp8"),  # once it is compiled
                ("unknown-key-ignored", "ax.yaml", "compile"),
            ],
        ),
    ],
)
def test_arguments_that_no_class_has(findings, files, arguments, expected):
    assert findings(files, *arguments.split()) == expected


@each(
    ("requirements", "names", "found"),
    [
        ("trl==0.17.0\n", "max_seq_length", []),
        ("trl==1.16.0\n", "max_seq_length", ["max_seq_length"]),
        ("trl==1.16.0\n", "system_prompt", []),  # of other classes, and of scripts
        ("trl==2.0.0\n", "max_seq_length", []),  # nobody knows what it has
        ("transformers==4.57.6\n", "warmup_ratio", []),
        ("transformers==5.24.0\n", "warmup_ratio", ["warmup_ratio"]),
        ("", "max_seq_length", []),
    ],
)
def test_arguments_of_another_release(findings, requirements, names, found):
    files = {"sft.yaml": f"bf16: true\noutput_dir: o\npacking: true\n{names}: 1\n"}
    diagnostics = findings({**files, "requirements.txt": requirements}, "sft.yaml")
    rule = "argument-of-another-release"
    assert diagnostics == [(rule, "sft.yaml", f"training.{name}") for name in found]


@each(
    ("name", "meant"),
    [
        ("max_lenght", "max_length"),
        ("gradient_acumulation_steps", "gradient_accumulation_steps"),
        ("warmup_step", "warmup_steps"),
        # arguments that scripts have of their own
        ("dataset", ""),
        ("dp_size", ""),
        ("max_seq_len", ""),
        ("lora_rank", ""),
    ],
)
def test_which_names_are_slips(name, meant):
    assert name not in reader("train.py").names
    assert reader("train.py").meant(name) == meant


@each(
    ("name", "trl", "transformers", "words"),
    [
        ("max_seq_length", "1.16.0", "5.24.0", "(it is gone since 0.20)"),
        ("use_dora", "0.15.2", "", "(0.16 is the first with it)"),
        ("tp_size", "", "4.53.0", "(it is gone since 4.52)"),
        ("no_such_name", "1.16.0", "5.24.0", ""),
    ],
)
def test_which_release_lacks_an_argument(name, trl, transformers, words):
    reason = reader("train.py", trl, transformers).why_missing(name)
    assert reason.endswith(words)
    assert bool(reason) == bool(words)


@each(
    ("name", "trl", "transformers", "meant"),
    [
        ("max_seq_length", "1.16.0", "5.24.0", "max_length"),
        ("max_seq_lenght", "0.17.0", "5.24.0", "max_seq_length"),
        ("evaluation_strategy", "1.16.0", "5.24.0", "eval_strategy"),
        ("logging_dir", "1.16.0", "5.24.0", ""),  # `log_dir` is one of the launcher's
    ],
)
def test_suggestions_are_names_of_the_release_at_hand(name, trl, transformers, meant):
    reads = reader("sft", trl, transformers)
    assert name not in reads.names
    assert reads.meant(name) == meant


MAX_SEQ_LENGTH = "training.max_seq_length"


@each(
    ("requirements", "arguments", "expected"),
    [
        ("trl==1.16.0\n", "-- sft", [("unknown-key", MAX_SEQ_LENGTH)]),
        ("trl==1.16.0\n", "-- train.py", []),  # which may not be TRL's
        (
            "trl==1.16.0\n",
            "-- train.py --packing true",
            [("argument-of-another-release", MAX_SEQ_LENGTH)],
        ),
        ("trl==0.17.0\n", "-- sft", []),
        ("trl @ git+https://github.com/huggingface/trl@8b4f0c1\n", "-- sft", []),
    ],
)
def test_which_script_has_arguments_of_its_release(
    findings, requirements, arguments, expected
):
    files = {"launch.yaml": LAUNCH, "requirements.txt": requirements}
    files["sft.yaml"] = f"{QUIET}output_dir: o\nmax_seq_length: 4096\n"
    diagnostics = findings(files, *f"launch.yaml --with sft.yaml {arguments}".split())
    assert [(rule, key) for rule, _, key in diagnostics] == expected


@each(
    ("requirements", "text", "expected"),
    [
        (
            "",
            "lr_scheduler_type: cosin\noptim: adamw_torch_fuse\nsave_strategy: no\n"
            "per_device_train_batch_size: two\nlearning_rate: 1e-5\n",
            [
                ("value-not-allowed", "training.lr_scheduler_type"),
                ("value-not-allowed", "training.optim"),
                ("value-not-allowed", "training.save_strategy"),
                ("wrong-type", "training.per_device_train_batch_size"),
            ],
        ),
        # a script may have a word of its own, and releases before 4.50 this one
        ("", "optim: muon\n", []),
        ("", "optim: adamw_hf\n", []),
        ("transformers==5.24.0\n", "optim: adamw_apex_fuse\n", []),
        (
            "transformers==5.0.0\n",
            "optim: adamw_apex_fuse\n",
            [("value-not-allowed", "training.optim")],
        ),
        ("transformers==5.24.0\n", 'save_strategy: "no"\noptim: adagrad\n', []),
    ],
)
def test_values_that_training_arguments_refuse(findings, requirements, text, expected):
    files = {
        "requirements.txt": requirements,
        "sft.yaml": f"output_dir: o\nbf16: false\n{text}",
    }
    files["launch.yaml"] = "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"
    diagnostics = findings(files, "launch.yaml", "--with", "sft.yaml")
    assert [(rule, key) for rule, _, key in diagnostics] == expected


AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
step_scheduler:
  global_batch_size: 64
fp8:
  enabled: false
optimizer:
  _target_: torch.optim.AdamW
"""


@each(
    ("right", "wrong", "expected"),
    [
        ("RecipeFor", "RecipFor", [("refused-settings", "recipe")]),
        ("AdamW", "Adamw", [("refused-settings", "optimizer._target_")]),
        ("fp8:", "float8:", [("unknown-key-ignored", "float8")]),
        ("torch.optim.AdamW", "my_package.optim.AdmW", []),
        ("TrainFinetuneRecipeForNextTokenPrediction", "TrainEagle3Recipe", []),
    ],
)
def test_classes_that_a_recipe_misspells(findings, right, wrong, expected):
    diagnostics = findings({"a.yaml": AUTOMODEL.replace(right, wrong)}, "a.yaml")
    assert [(rule, key) for rule, _, key in diagnostics] == expected


def test_a_name_cut_short_is_the_key_that_it_begins(found):
    text = LLAMAFACTORY.replace("model_name_or_path", "model_name")
    diagnostics = found({"lf.yaml": text}, "lf.yaml")
    (fix,) = (d["fix"] for d in diagnostics if d["rule"] == "unknown-key")
    assert fix["title"] == "rename it to `model_name_or_path`"


@each(
    ("files", "arguments", "joined"),
    [
        ({"launch.yaml": LAUNCH, "sft.yaml": SFT}, "launch.yaml sft.yaml", True),
        ({"launch.yaml": LAUNCH, "sft.yaml": SFT}, ".", True),
        ({"launch.yaml": LAUNCH, "lf.yaml": LLAMAFACTORY}, ".", True),
        (
            {
                "launch.yaml": LAUNCH,
                "sft.yaml": SFT,
                "ds.json": '{"train_batch_size": 8, "bf16": {"enabled": true}}',
            },
            ".",
            True,
        ),
        # which of two belongs to the launch file, nobody knows
        ({"launch.yaml": LAUNCH, "a.yaml": SFT, "b.yaml": SFT}, ".", False),
        ({"launch.yaml": LAUNCH, "data.yaml": "seed: 1\npath: x\n"}, ".", False),
        ({"launch.yaml": LAUNCH}, "launch.yaml", False),
    ],
)
def test_files_that_are_one_job(findings, fp8tune, files, arguments, joined):
    findings(files, ".")
    said = fp8tune("lint", *arguments.split())
    assert ("checked as one job" in said.out + said.err) == joined


def test_estimate_joins_the_files_of_a_job(fp8tune, project):
    sft = f"{QUIET}model_name_or_path: Qwen/Qwen3-8B\nmax_length: 4096\noutput_dir: o\n"
    project({"launch.yaml": LAUNCH, "sft.yaml": sft})
    alone = fp8tune("estimate", "launch.yaml", "--with", "sft.yaml", "--gpu", "h100")
    joined = fp8tune("estimate", "sft.yaml", "launch.yaml", "--gpu", "h100")
    assert joined.err == "fp8tune: launch.yaml and sft.yaml are read as one job\n"
    assert (joined.code, joined.out) == (alone.code, alone.out)
    two = fp8tune("estimate", "launch.yaml", "launch.yaml", "--gpu", "h100")
    assert "one job" not in two.err


def test_fixes_reach_each_file_of_a_job(fp8tune, project):
    folder = project({"launch.yaml": LAUNCH, "sft.yaml": SFT})
    said = fp8tune("lint", ".", "--unsafe-fixes")
    assert "fixed 2 findings in 1 file" in said.out + said.err
    text = SFT.replace("lenght", "length").replace("batchsize", "batch_size")
    assert (folder / "sft.yaml").read_text() == text
    assert (folder / "launch.yaml").read_text() == LAUNCH


@each(
    ("name", "text"),
    [
        (
            "config.yaml",
            "model_name: Qwen/Qwen2.5-1.5B-Instruct\ndataset_version: v1.0\n"
            "template: qwen\ncutoff_len: 2048\nmax_samples: 1000\nbatch_size: 1\n"
            "gradient_accumulation_steps: 2\nnum_epochs: 3.0\nadapter_path: null\n",
        ),
        (
            "trainer_state.json",
            '{"epoch": 1.0, "eval_steps": 500, "global_step": 100, "log_history": [], '
            '"logging_steps": 10, "max_steps": 100, "num_train_epochs": 1, '
            '"save_steps": 50, "total_flos": 1e15, "train_batch_size": 4}',
        ),
        (
            "config.json",
            '{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, '
            '"num_hidden_layers": 32, "torch_dtype": "bfloat16"}',
        ),
        (
            "config.yaml",
            "_wandb: {value: {}}\n_n_gpu: {value: 8}\nbf16: {value: true}\n"
            "learning_rate: {value: 1e-5}\noutput_dir: {value: out}\n",
        ),
        (
            "recipe.yaml",
            "output_dir: o\ncheckpointer: {_component_: x}\nmax_steps_per_epoch: null\n"
            "gradient_accumulation_steps: 1\nbatch_size: 2\n",
        ),
        ("hydra.yaml", "defaults: [_self_]\nmodel: {name: x}\ntrain: {lr: 1e-3}\n"),
    ],
)
def test_files_of_other_programs_are_no_train_configs(fp8tune, project, name, text):
    project({name: text})
    named = fp8tune("lint", name)
    assert named.code == 2
    assert "no train config of a known trainer" in named.err
    (project({}) / name).unlink()


TITAN = "# fp8tune: gpu=h100 world-size=8 trainer=torchtitan=={}\n[training]\n{}"
FORGE = "[train]\nmax_steps = {}\n[scheduler]\nwarmup_steps = {}\n"
SCHEDULE = "[lr_scheduler]\nwarmup_steps = {}\n"


@each(
    ("text", "words"),
    [
        (TITAN.format("0.2.2", "steps = 98\n") + SCHEDULE.format(200), "100% of"),
        (
            TITAN.format("0.2.2", "steps = 98\n")
            + SCHEDULE.format(200)
            + "total_steps = 1000\n",
            "49% of",
        ),
        (TITAN.format("0.2.2", "steps = 98\n"), "200`, the default, takes"),
        (FORGE.format(98, 200), "48% of"),
        (
            "# fp8tune: trainer=prime_rl\nmax_steps = 98\n[scheduler]\n"
            'type = "linear"\nwarmup_steps = 200\n',
            "",
        ),
    ],
)
def test_warmup_by_the_formula_of_the_trainer(lint_text, text, words):
    report = lint_text(text)
    rule = "warmup-longer-than-run"
    messages = [d.message for d in report.diagnostics if d.rule == rule]
    assert [words in message for message in messages] == [True] * bool(words)


@each(
    ("options", "rules"),
    [
        ("fp8_format: HYBRID\n  margin: 0\n  amax_compute_algo: max", []),
        ("use_mxfp8_block_scaling: false", []),
        ("fp8_format: E4M3", ["te-options-lost-by-arguments"]),
        ("amax_compute_algo: most_recent", ["most-recent-never-applied"]),
    ],
)
def test_options_equal_to_the_defaults_are_not_lost(findings, options, rules):
    launch = TE + f"  {options}\n"
    files = {"launch.yaml": launch, "sft.yaml": "output_dir: o\nbf16: true\n"}
    assert [rule for rule, *_ in findings(files, ".")] == rules


@each(
    ("name", "text", "rules"),
    [
        (  # the trainer's table has more types than its class lists
            "a.toml",
            TITAN.format("0.2.2", 'mixed_precision_reduce = "bfloat16"\n'),
            ["gradients-summed-in-16-bits"],
        ),
        (
            "a.toml",
            TITAN.format("0.2.2", "")
            + '[parallelism]\nfsdp_reshard_after_forward = "auto"\n',
            ["unknown-reshard-policy"],
        ),
        (
            "a.yaml",
            LLAMAFACTORY.replace("full", "qlora"),
            ["value-not-allowed"],
        ),
        (
            "a.json",
            "# fp8tune: trainer=deepspeed==0.19.8\n"
            '{"train_batch_size": 8, "zero_optimization": {"mics_shard_size": 8}}',
            ["removed-from-deepspeed"],
        ),
        (
            "a.yaml",
            "# fp8tune: gpu=a100\nbase_model: x\ndatasets:\n- path: y\nbf16: true\n"
            "type: alpaca\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\n"
            "learning_rate: 2e-5\nfp8: true\ntorch_compile: true\n",
            ["fp8-below-hopper", "unknown-key-ignored"],
        ),
    ],
)
def test_one_finding_for_a_fault(findings, name, text, rules):
    assert sorted(rule for rule, *_ in findings({name: text}, name)) == rules


def test_a_hint_is_no_other_precision(lint_text):
    text = TITAN.format("0.2.2", 'mixed_precision_param = "{}"\n')
    for value, fixed in (("float8", False), ("bfloat1", True), ("Float32", True)):
        (found,) = lint_text(text.replace("{}", value)).diagnostics
        assert (found.rule, found.fix is not None) == ("value-not-allowed", fixed)


@each(
    ("launch", "arguments", "key"),
    [
        ('"NO"', "torch_compile: true", "training.torch_compile"),
        ("INDUCTOR", "torch_compile: false", "dynamo_config.dynamo_backend"),
        ("INDUCTOR", "torch_compile: true", "training.torch_compile"),
    ],
)
def test_a_mark_is_on_the_key_that_turns_a_field_on(findings, launch, arguments, key):
    files = {
        "launch.yaml": f"{TE}dynamo_config:\n  dynamo_backend: {launch}\n",
        "sft.yaml": f"output_dir: o\nbf16: false\n{arguments}\n",
    }
    found = {rule: key for rule, _, key in findings(files, ".")}
    assert found["te-compiled"] == key


@each(
    ("name", "text"),
    [
        ("a.yaml", LLAMAFACTORY + "deepspeed: ds/none.json\n"),
        ("a.yaml", AXOLOTL + "deepspeed: ds/none.json\n"),
        (
            "a.yaml",
            "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n"
            "  deepspeed_config_file: ds/none.json\n",
        ),
    ],
)
def test_a_named_file_that_is_not_there(findings, name, text):
    rules = [rule for rule, *_ in findings({name: text}, name)]
    assert rules == ["named-file-not-checked"]
    there = {name: text, "ds/none.json": '{"train_batch_size": "auto"}'}
    rules = [rule for rule, *_ in findings(there, name)]
    assert "named-file-not-checked" not in rules


LIBRARIES = ("accelerate", "deepspeed")
"""Trainers that others run on, so that their texts name them."""


def test_texts_name_no_other_trainer(repository):
    titles = {name: about.title for name, about in trainers().items()}
    wrong = []
    for rule in read_builtin():
        category = f"{rule.category}/{rule.name}.toml"
        data = tomllib.loads((repository / "rules" / category).read_text())
        texts = [data.get("message", ""), data.get("help", "")]
        texts += [at.get("label", "") for at in data.get("at", ())]
        for fix in data.get("fix", ()):
            texts += [fix.get("title", ""), fix.get("changes", "")]
        for name, title in titles.items():
            foreign = rule.trainers != (name,) and name not in LIBRARIES
            if foreign and any(re.search(rf"\b{title}\b", text) for text in texts):
                wrong.append((rule.name, title))
        if len(rule.trainers) != 1 and "this trainer's" in data["why"].lower():
            wrong.append((rule.name, "this trainer"))
    assert wrong == []
