"""Forks and releases: what users of patched trainers and of other releases met."""

import re
import tomllib

from fp8tune.trainers.packages import pinned
from fp8tune.trainers.trainer import trainer
from tests.each import each
from tests.sample import AXOLOTL, LLAMA_8B, TORCHTITAN

TITAN = f"{TORCHTITAN}local_batch_size = 2\nsteps = 1000\n[compile]\nenable = true\n"
SFT = """\
[deployment]
num_gpus = 2
[model]
name = "Qwen/Qwen3-0.6B"
[data]
name = "x"
seq_len = 1024
batch_size = 64
"""
FORGE = (
    f"{LLAMA_8B}max_seq_len = 4096\n"
    "[train]\nbatch_size = 4\nseq_len = 4096\ncompile_model = true\n"
)
SCRIPT = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 16 --hidden-size 2048 --num-attention-heads 16 \\
  --seq-length 4096 --max-position-embeddings 4096 \\
  --micro-batch-size 1 --global-batch-size 128 --train-iters 1000 --lr 3e-4 \\
  --tokenizer-type NullTokenizer --vocab-size 32000 --swiglu --bf16 \\
  --use-mpi --zloss-coeff 1e-4 --zloss-start 100
"""
PRIME = '[project]\nname = "prime-rl"\nversion = "{}"\n'
LOCK = '[[package]]\nname = "{}"\nversion = "{}"\nsource = {}\n'


TAG = "torchtitan @ git+https://github.com/pytorch/torchtitan@v0.2.1\n"


@each(
    ("files", "read_as", "rules"),
    [
        (  # a checkout of the trainer, of a release that is not known
            {"sft.toml": SFT, "pyproject.toml": PRIME.format("0.7.0")},
            "prime-rl 0.8.1.dev67.sft (pyproject.toml has 0.7.0, which fp8tune does "
            "not know: what 0.8.1.dev67 refuses is not reported)",
            [],
        ),
        (
            {"sft.toml": SFT, "pyproject.toml": PRIME.format("0.8.1.dev67")},
            "prime-rl 0.8.1.dev67.sft (pyproject.toml)",
            [("unknown-key", "deployment.num_gpus")],
        ),
        (
            {"a.toml": TITAN, "requirements.txt": "torchtitan==0.2.0\n"},
            "torchtitan 0.2.0 (requirements.txt)",
            [],
        ),
        (
            {
                "a.toml": TITAN.replace("steps", "stepps"),
                "poetry.lock": LOCK.format("torchtitan", "0.2.1", "{}"),
            },
            "torchtitan 0.2.1 (poetry.lock)",
            [("unknown-key", "training.stepps")],
        ),
        (  # a commit: its keys are those of no release
            {
                "a.toml": TITAN.replace("steps", "stepps"),
                "uv.lock": LOCK.format("torchtitan", "0.2.2", '{ git = "https://x" }'),
            },
            "torchtitan 0.2.2 (uv.lock has 0.2.2 from git, which fp8tune does not know",
            [],
        ),
        (  # the tag of a release
            {"a.toml": TITAN.replace("steps", "stepps"), "requirements.txt": TAG},
            "torchtitan 0.2.1 (requirements.txt)",
            [("unknown-key", "training.stepps")],
        ),
        (
            {
                "a.toml": TITAN.replace("steps", "stepps"),
                "requirements.txt": TAG.replace("v0.2.1", "7e2c9d1"),
            },
            "torchtitan 0.2.2 (requirements.txt has a folder or commit, which",
            [],
        ),
        (
            {
                "sft.toml": SFT,
                "pyproject.toml": "[project]\nname = 'x'\ndependencies = "
                "['prime-rl @ git+https://github.com/PrimeIntellect-ai/prime-rl']\n",
            },
            "prime-rl 0.8.1.dev67.sft (pyproject.toml has a folder or commit, which",
            [],
        ),
        (
            {"a.toml": TITAN, "requirements.txt": "torchtitan==0.3.0\n"},
            "torchtitan 0.2.2 (requirements.txt has 0.3.0: since 0.3.0 torchtitan has",
            [],
        ),
    ],
)
def test_the_release_that_files_beside_a_config_say(
    found, fp8tune, files, read_as, rules
):
    name = next(iter(files))
    keys = [(one["rule"], one["key"]) for one in found(files, name)]
    assert [one for one in keys if "fp8" not in one[0]] == rules
    _, out, err = fp8tune("lint", name)
    assert f"read as {read_as}" in f"{out}{err}"


FORKS = [
    (
        "a.toml",
        TITAN.replace("steps", "zloss_at = 1\nzloss = 1e-4\nsteps")
        + "[infra]\nbucket = 's3'\n[mup]\nbase = 64\n",
        ["training.zloss_at", "training.zloss", "infra", "mup"],
        '"training.zloss_at", "training.zloss", "infra", "mup"',
    ),
    (
        "a.toml",
        f"{FORGE}mup_base = 64\nmup_width = 4\n[infra]\nbucket = 's3'\n",
        ["train.mup_base", "train.mup_width", "infra"],
        '"train.mup_*", "infra"',
    ),
    (
        "sft.toml",
        SFT.replace("num_gpus", "type = 'single_node'\nzone")
        + "[infra]\nbucket = 's3'\n",
        ["infra", "deployment.zone"],
        '"infra", "deployment.zone"',
    ),
    (
        "run.sh",
        SCRIPT,
        ["use_mpi", "zloss_coeff", "zloss_start"],
        '"--use-mpi", "--zloss-*"',
    ),
    (
        "axo.yaml",
        f"# fp8tune: trainer=axolotl==0.19.0\n{AXOLOTL}hydra_zone: a\nkraken: 1\n",
        ["hydra_zone", "kraken"],
        '"hydra_zone", "kraken"',
    ),
]
"""Files of forks, the keys that the releases lack, and patterns for them."""

UNKNOWN = ("unknown-key", "unknown-key-ignored")


def unknown(diagnostics):
    return [d for d in diagnostics if d["rule"] in UNKNOWN]


@each(("name", "text", "lacking", "patterns"), FORKS)
def test_all_keys_of_a_fork_are_one_finding(found, name, text, lacking, patterns):
    (one,) = unknown(found({name: text}, name))
    assert {label["key"] for label in one["labels"]} == {*lacking}
    assert f"`extra-keys=[{patterns}]`" in one["help"]
    assert one["category"] == ("silent" if name == "axo.yaml" else "rejected")


@each(("name", "text", "lacking", "patterns"), FORKS)
def test_extra_keys_are_known(found, name, text, lacking, patterns):
    settings = f"[tool.fp8tune]\nextra-keys = [{patterns}, 'no.such']\n"
    files = {name: text, "pyproject.toml": settings}
    assert unknown(found(files, name)) == []
    for table in re.findall(r'"([a-z]\w*)"', patterns):
        files["pyproject.toml"] = settings.replace(f'"{table}"', f'"{table}.*"')
        assert unknown(found(files, name)) == []
    as_list = f"[{patterns}]".replace(", ", ",")
    for comment in (as_list, as_list.strip("[]").replace('"', "")):
        files = {name: f"# fp8tune: extra-keys={comment}\n{text}"}
        assert unknown(found(files, name)) == []


@each(
    ("name", "text", "rule", "key"),
    [
        ("a.toml", TITAN.replace("steps", "stepps"), "unknown-key", "training.stepps"),
        ("a.toml", f"{FORGE}batchsize = 4\n", "unknown-key", "train.batchsize"),
        (
            "run.sh",
            SCRIPT.replace("--swiglu", "--swiglu --no-masked-softmax-fuson"),
            "unknown-key",
            "no_masked_softmax_fuson",
        ),
    ],
)
def test_a_near_miss_is_told_by_itself(found, name, text, rule, key):
    text = f"{text}[infra]\nx = 1\n" if name == "a.toml" else text
    diagnostics = found({name: text}, name)
    near, fork = sorted(unknown(diagnostics), key=lambda d: "extra-keys" in d["help"])
    assert (near["rule"], near["key"]) == (rule, key)
    assert near["help"].startswith("did you mean `")
    assert fork["help"].startswith("if yours is a fork of ")


def test_extra_keys_are_those_of_training_arguments_too(found):
    """The names are as they stand in their own file; a near miss may be a fork's."""
    launch = "distributed_type: MULTI_GPU\nmixed_precision: bf16\nnum_processes: 8\n"
    arguments = "output_dir: o\nbf16: true\ngradient_accumulation_step: 2\n"
    files = {"launch.yaml": launch, "sft.yaml": arguments}
    command = ("launch.yaml", "--with", "sft.yaml")
    rules = [one["rule"] for one in found(files, *command)]
    assert rules == ["unknown-argument"]
    settings = '[tool.fp8tune]\nextra-keys = ["gradient_accumulation_*"]\n'
    files["pyproject.toml"] = settings
    assert found(files, *command) == []


def test_rules_go_on_where_the_keys_are_a_forks(found):
    text = FORGE.replace("batch_size = 4", 'batch_size = 4\nmixed_precision = "fp8"')
    text = f"{text}zone = 1\n[distributed]\ntp = 2\n"
    files = {"a.toml": text}
    rules = {d["rule"] for d in found(files, "a.toml")}
    assert rules >= {"unknown-key", "fp8-with-tensor-parallel"}
    files["pyproject.toml"] = '[tool.fp8tune]\nextra-keys = ["train.zone"]\n'
    assert {d["rule"] for d in found(files, "a.toml")} == rules - {"unknown-key"}


@each(("name", "text"), [("run.sh", SCRIPT), ("a.toml", f"{FORGE}mup_base = 64\n")])
def test_estimate_goes_on_without_keys_of_a_fork(fp8tune, project, name, text):
    pinned.cache_clear()
    target = "--gpu", "h100", "--world-size", "8"
    flags = "`--use-mpi`, `--zloss-coeff`, `--zloss-start`"
    left_out = flags if name == "run.sh" else "`train.mup_base`"
    pattern = "--use-mpi,--zloss-*" if name == "run.sh" else "train.mup_*"
    project({name: text.partition("  --use-mpi")[0].partition("mup_base")[0]})
    plain = fp8tune("estimate", name, *target, "--output-format", "json")
    project({name: text})
    undeclared = fp8tune("estimate", name, *target, "--output-format", "json").json
    assert undeclared["memory"] == plain.json["memory"]
    assert [one["rule"] for one in undeclared["refused"]] == ["unknown-key"]
    out = " ".join(fp8tune("estimate", name, *target).out.split())
    assert "left out of this estimate: " in out
    assert "this cannot run" not in out
    project({name: f"# fp8tune: extra-keys={pattern}\n{text}"})
    code, out, _ = fp8tune("estimate", name, *target)
    said = f"left out of this estimate: {left_out} (extra-keys)"
    assert said in " ".join(out.split())
    assert code == plain.code


EARLY = """\
[training]
batch_size = 1
seq_len = 8192
{}
[model]
name = "llama3"
flavor = "8B"
{}
"""
FLOAT8 = "[float8]\nenable_float8_linear = true\nenable_fsdp_float8_all_gather = true\n"


@each(
    ("text", "moved"),
    [
        (
            EARLY.format("warmup_steps = 200", "norm_type = 'rmsnorm'") + FLOAT8,
            {
                "training.batch_size": "`training.local_batch_size`",
                "training.warmup_steps": "`lr_scheduler.warmup_steps`",
                "model.norm_type": "",
                "float8.enable_float8_linear": '`model.converters = ["float8"]`',
            },
        ),
        (
            EARLY.format("fp8_linear = 'dynamic'", "")
            + "[experimental]\npipeline_parallel_degree = 2\n"
            + "[optimizer]\nfused = true\n",
            {
                "training.batch_size": "`training.local_batch_size`",
                "training.fp8_linear": '`model.converters = ["float8"]`',
                "experimental.pipeline_parallel_degree": (
                    "`parallelism.pipeline_parallel_degree`"
                ),
                "optimizer.fused": '`optimizer.implementation = "fused"`',
            },
        ),
    ],
)
def test_a_torchtitan_file_before_0_1_0_has_one_finding(found, text, moved):
    (one,) = found({"a.toml": text}, "a.toml")
    assert one["rule"] == "unknown-key-ignored"
    assert "releases before 0.1.0" in one["message"]
    for key, now in moved.items():
        said = f"`{key}` is now {now}" if now else f"nothing replaces `{key}`"
        assert said in one["help"]


def test_one_old_key_may_be_a_mistake(found):
    text = EARLY.format("compile = true", "")
    (one,) = found({"a.toml": text}, "a.toml")
    assert one["help"] == "did you mean `training.local_batch_size`?"


def test_no_release_has_the_earlier_keys():
    about = trainer("torchtitan").about
    for id_ in about.ids:
        schema = trainer(id_).schema
        names = {*schema.sections, *dict(schema.dotted_keys())}
        assert names.isdisjoint(about.earlier)
    first = dict(trainer(about.ids[-1]).schema.dotted_keys())
    for now in filter(None, about.earlier.values()):
        assert re.match(r"`([\w.]+)", now)[1] in first


@each(("switch", "converters"), [("true", None), ("false", []), ("'dynamic'", None)])
def test_no_default_stands_for_the_value_of_an_earlier_key(switch, converters):
    text = EARLY.format(f"fp8_linear = {switch}", "")
    values = trainer("torchtitan==0.1.0").load(tomllib.loads(text)).values
    assert "training.local_batch_size" not in values
    assert values.get("model.converters") == converters


@each(
    ("change", "said"),
    [
        (("--hidden-size 2048", "--hidden-size 2047"), "--hidden-size"),
        (("--seq-length 4096", ""), "`--seq-length` is missing"),
        (
            ("--swiglu", "--swiglu --fp8-format e4m4"),
            "`--fp8-format e4m4` is not allowed",
        ),
        (("--swiglu", "--swiglu --no-such"), "`--no-such`"),
    ],
)
def test_messages_about_scripts_name_flags(found, fp8tune, change, said):
    diagnostics = found({"run.sh": SCRIPT.replace(*change)}, "run.sh")
    texts = [f"{d['message']} {d['help']}" for d in diagnostics]
    assert any(said in text for text in texts)
    keys_of = trainer("megatron_lm").schema.top_keys
    for text in texts:
        assert not {word.strip("`,;:()") for word in text.split()} & {
            key for key in keys_of if "_" in key
        }
    refused = fp8tune("estimate", "run.sh", "--output-format", "json").json["refused"]
    assert {f"{one['message']} {one['help']}" for one in refused} <= {*texts}


@each(
    ("wrong", "meant"),
    [
        ("--log-params-nrm", "--log-params-norm"),  # a flag without a key of the schema
        ("--lr-warmup-iter 10", "--lr-warmup-iters"),
        ("--fp8 hybrid", "--fp8-format"),
    ],
)
def test_the_fix_of_a_misspelt_flag_names_a_flag(found, wrong, meant):
    script = SCRIPT.replace("--lr ", f"{wrong} --lr ")
    fix = found({"a.sh": script}, "a.sh")[0]["fix"]
    assert fix["title"] == f"rename it to `{meant}`"
    assert fix["changes"] == f"this value takes effect as `{meant}`"
