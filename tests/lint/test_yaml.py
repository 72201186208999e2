"""YAML configs, and other YAML and JSON files, in a whole run."""

import sys

from fp8tune.config.settings import Options
from fp8tune.lint.run import run
from tests.each import each
from tests.lint.results import names

CONFIG = """\
# fp8tune: world-size=8
model:
  name: Qwen/Qwen3-0.6B
optim:
  lrr: 1.0e-5  # the rate
note: |
  # fp8tune: gpu=nosuch
"""
OTHERS = {
    "deploy.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n",
    "ci.yml": "on: push\njobs: {}\n",
    "package.json": '{"dependencies": {}, "scripts": {}}\n',
    "broken.yaml": "a: [\n",
    "list.yaml": "- 1\n",
    "deep.yaml": "a: " + "[" * 100_000,
    "big.json": " " * (2 << 20),
    "broken.json": '{"a": ',
    "deep.json": "[" * 100_000,
    "letters.json": "a" * 1_000_000,  # hours, if searched twice
    "template.yaml": "{{ x }}\n",
    "generation_config.json": '{"bos_token_id": 1, "temperature": 0.6, "top_p": 0.9}',
    "merge.yaml": "merge_method: ties\nbase_model: a/b\nmodels: []\ndtype: bf16\n",
    "serve.yaml": "model: a/b\ntensor-parallel-size: 2\nmax-model-len: 4096\n",
    "lightning.yaml": "model: {}\ntrainer: {max_steps: 5}\ndata: {}\n",
    "swift.yaml": "model: a/b\ndataset: c/d\nlearning_rate: 1e-4\nmax_length: 9\n",
    "pyproject.toml": "[project]\nname = 'x'\n",
}


def test_other_files_of_a_folder_get_no_word(project):
    project({**OTHERS, "train.yaml": CONFIG})
    result = run((".",), Options())
    assert [(r.path, r.skipped) for r in result.reports] == [
        ("pyproject.toml", "a Python project file"),
        ("train.yaml", ""),
    ]
    assert result.unread == []


@each(
    ("name", "reason"),
    [
        ("deploy.yaml", "no train config of a known trainer: a Kubernetes manifest"),
        ("ci.yml", "no train config of a known trainer: a GitHub workflow"),
        ("package.json", "no train config of a known trainer: a Node.js package"),
        ("list.yaml", "no train config: at its top there are no keys"),
        ("deep.yaml", "nested more than 100 levels deep: not a train config"),
    ],
)
def test_a_named_file_is_told_what_it_is(project, name, reason):
    project(OTHERS)
    assert run((name,), Options()).unread == [f"{name}: {reason}"]


def test_a_broken_file_that_is_named(project):
    project(OTHERS)
    (found,) = run(("template.yaml",), Options()).diagnostics
    assert (found.rule, found.region[:2]) == ("invalid-yaml", (1, 2))
    assert found.help.startswith("this looks like a Jinja template")


def test_a_config_and_its_comments(project):
    project({"train.yaml": CONFIG})
    result = run((".",), Options(select=("rejected", "hygiene")))
    assert names(result) == [("train.yaml", "unknown-key")] * 2
    first, second = result.diagnostics
    assert (first.key, first.region) == ("optim.lrr", (5, 3, 5, 6))
    assert (second.key, second.region) == ("note", (6, 1, 6, 5))
    assert first.fix.edits[0].text == "lr"


def test_fixes_and_ignores_keep_every_other_byte(project):
    root = project({"train.yaml": CONFIG.replace("\n", "\r\n")})
    run((".",), Options(fix=True, unsafe_fixes=True, select=("unknown-key",)))
    fixed = (root / "train.yaml").read_bytes().decode()
    assert fixed == CONFIG.replace("lrr:", "lr:").replace("\n", "\r\n")
    run((".",), Options(add_ignore=True, select=("unknown-key",)))
    ignored = (root / "train.yaml").read_bytes().decode()
    comment = "# fp8tune: ignore[unknown-key]\r\nnote:"
    assert ignored == fixed.replace("note:", comment)
    assert names(run((".",), Options(select=("unknown-key",)))) == []


def test_an_ignore_comment_inside_a_string_ignores_nothing(project):
    text = (
        "  # fp8tune: ignore[unknown-key]\n  x: |\n    # fp8tune: ignore[wrong-type]\n"
    )
    project({"train.yaml": f"model:\n{text}  name: 1\noptim:\n  lr: 1\n"})
    result = run((".",), Options(select=("unknown-key", "unused-ignore", "wrong-type")))
    assert names(result) == [("train.yaml", "wrong-type")]


BRIDGE = """\
model:
  num_layers: ${oc.env:LAYERS}
  fp8_recipe: ${mixed_precision.fp8_recipe}
train: {train_iters: 10, micro_batch_size: 1}
mixed_precision: bf16_with_fp8_curent_scaling_mixed
"""
AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {local_batch_size: 8}
distributed: {strategy: $STRATEGY}
dist_env: {backend: nccl}
fp8: {enabled: "${FP8}", recipe: rowwise}
"""
LLAMA_FACTORY = """\
model_name_or_path: ${oc.env:MODEL}
stage: dpo
do_train: true
dataset: alpaca_en_demo
fp8: true
"""


def test_values_that_only_a_run_knows(project):
    """They hide nothing else, in folders and hooks too."""
    project({"a.yaml": AUTOMODEL, "b.yaml": BRIDGE, "l.yaml": LLAMA_FACTORY})
    for paths in ((".",), ("a.yaml", "b.yaml", "l.yaml")):
        result = run(paths, Options(force_exclude=True, ignore=("slow",)))
        assert names(result) == [
            ("a.yaml", "unresolved-values"),
            ("a.yaml", "unknown-key-ignored"),
            ("b.yaml", "unresolved-values"),
            ("b.yaml", "value-not-allowed"),
            ("l.yaml", "reference-kept"),
            ("l.yaml", "fp8-in-another-stage"),
        ]


@each(
    ("value", "hint"),
    [
        ('"{{ p }}"', "this looks like a Jinja template"),
        ("${P}", "nothing expands `${P}` here"),
        ("$P-x", "nothing expands `$P` here"),
        ("fp8x", ""),
    ],
)
def test_what_nobody_has_filled_in(project, value, hint):
    text = f"distributed_type: NO\nnum_processes: 1\nmixed_precision: {value}\n"
    project({"launch.yaml": text})
    (found,) = run((".",), Options(select=("rejected",))).diagnostics
    assert (found.rule, found.help[: len(hint)]) == ("value-not-allowed", hint)


def test_the_trainer_of_another_format(project):
    project({"a.yaml": "model: {}\n"})
    (line,) = run(("a.yaml",), Options(trainer="torchtitan")).unread
    assert line.endswith("torchtitan reads TOML, not YAML")


def test_without_pyyaml(project, monkeypatch):
    for module in [m for m in sys.modules if m.startswith("fp8tune.formats.yaml.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "yaml", None)
    project({"deploy.yaml": OTHERS["deploy.yaml"], "train.yaml": CONFIG})
    reason = "reading YAML needs PyYAML: pip install PyYAML"
    assert run(("train.yaml",), Options()).unread == [f"train.yaml: {reason}"]
    assert run((".",), Options()).unread == [f"train.yaml: {reason}"]
