"""Sizes that the ranks of a run must divide, as users met them."""

import pytest

from tests import sample
from tests.each import each
from tests.sample import DEFAULT_8B

TITAN = """\
[model]
name = "{model}"
flavor = "{flavor}"
converters = ["quantize.linear.float8"]
[training]
local_batch_size = 1
seq_len = 8192
[parallelism]
{parallelism}
[compile]
enable = true
[quantize.linear.float8]
enable_fsdp_float8_all_gather = {gather}
precompute_float8_dynamic_scale_for_fsdp = {gather}
filter_fqns = ["output"{filters}]
"""

KEMPNER = (
    DEFAULT_8B
    + """\
[train]
mixed_precision = "{precision}"
batch_size = 1
activation_checkpointing = "full"
seq_len = 4096
"""
)

AUTOMODEL = """\
recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: Qwen/Qwen2.5-7B
packed_sequence:
  packed_sequence_size: 8192
checkpoint:
  model_save_format: torch_save
distributed:
  enable_compile: true
  {degrees}
fp8:
  enabled: true
  enable_fsdp_float8_all_gather: true
"""

AXOLOTL = (
    sample.AXOLOTL.replace("4096", "8192")
    + """\
bf16: true
fp8: true
fp8_enable_fsdp_float8_all_gather: {gather}
torch_compile: true
optimizer: adamw_torch_fused
sample_packing: true
fsdp_version: 2
fsdp_config:
  auto_wrap_policy: TRANSFORMER_BASED_WRAP
  state_dict_type: FULL_STATE_DICT
  reshard_after_forward: true
{degrees}
"""
)

LAUNCH = """\
distributed_type: FSDP
mixed_precision: fp8
num_processes: {processes}
fp8_config: {{backend: AO}}
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_reshard_after_forward: true
  fsdp_state_dict_type: FULL_STATE_DICT
  fsdp_cpu_ram_efficient_loading: false
{degrees}
"""

ARGUMENTS = """\
model_name_or_path: Qwen/Qwen3-8B
bf16: false
fp16: false
max_length: 4096
per_device_train_batch_size: 1
torch_compile: true
packing: true
dtype: bfloat16
gradient_checkpointing: true
learning_rate: 1.0e-5
max_steps: 100
"""


def titan(parallelism="", *, model="llama3", flavor="8B", gather=True, filters=""):
    filled = {"model": model, "flavor": flavor, "filters": filters}
    return TITAN.format(parallelism=parallelism, gather=str(gather).lower(), **filled)


@pytest.fixture
def findings(found):
    """What is found in files, by the rule."""
    return lambda *arguments: {one["rule"]: one for one in found(*arguments)}


def degrees(shard, replicate=1, tp=1, cp=1):
    return (
        f"data_parallel_shard_degree = {shard}\n"
        f"data_parallel_replicate_degree = {replicate}\n"
        f"tensor_parallel_degree = {tp}\ncontext_parallel_degree = {cp}"
    )


UNEVEN = "fp8-all-gather-uneven"


@each(
    ("text", "name", "gpus", "ranks"),
    [
        (titan(), "a.toml", 6, "a number of ranks that divides 1024"),
        (titan(degrees(3, 8)), "a.toml", 24, "2 or 4"),
        (titan(degrees(96, tp=2)), "a.toml", 192, "32, 64 or 128"),
        (titan(flavor="17bx16e", model="llama4"), "a.toml", 32, "16 shards work"),
        (KEMPNER.format(precision="fp8"), "a.toml", 24, "8, 16 or 32"),
        (AUTOMODEL.format(degrees="tp_size: 1"), "a.yaml", 6, "2, 4 or 8"),
        (AXOLOTL.format(gather="true", degrees=""), "a.yaml", 12, "4, 8 or 16"),
        (
            AXOLOTL.format(
                gather="true", degrees="dp_shard_size: 4\ncontext_parallel_size: 3"
            ),
            "a.yaml",
            12,
            "over 12 shards",
        ),
    ],
)
def test_fp8_all_gather_whose_shards_do_not_divide_the_rows(
    findings, fp8tune, text, name, gpus, ranks
):
    found = findings({name: text}, name, "--world-size", str(gpus))
    assert found[UNEVEN]["severity"] == "error"
    shown = fp8tune("lint", name, "--world-size", str(gpus)).out
    assert ranks in shown


@each(
    ("text", "name", "gpus"),
    [
        (titan(), "a.toml", 8),
        (titan(gather=False), "a.toml", 24),
        (titan(degrees(1, 6)), "a.toml", 6),
        (
            titan(flavor="17bx16e", model="llama4", filters=', "router.gate"'),
            "a.toml",
            32,
        ),
        (KEMPNER.format(precision="fp8"), "a.toml", 16),
        (KEMPNER.format(precision="bf16"), "a.toml", 24),
        (AUTOMODEL.format(degrees="dp_replicate_size: 3"), "a.yaml", 12),
        (
            AXOLOTL.format(
                gather="true", degrees="dp_shard_size: 8\ndp_replicate_size: 3"
            ),
            "a.yaml",
            24,
        ),
        (
            AXOLOTL.format(gather="true", degrees="tensor_parallel_size: 2"),
            "a.yaml",
            12,
        ),
    ],
)
def test_other_shards_work(findings, text, name, gpus):
    assert UNEVEN not in findings({name: text}, name, "--world-size", str(gpus))


@each(
    ("processes", "parallel", "uneven"),
    [
        (6, {}, True),
        (8, {}, False),
        (24, {"dp_replicate": 3, "dp_shard": 8}, False),
        (24, {"dp_replicate": 4, "dp_shard": 6}, True),
        (24, {"dp_shard": 12, "tp": 2}, False),
    ],
)
def test_accelerate_gathers_in_fp8_by_default(findings, processes, parallel, uneven):
    prefix = "  parallelism_config_"
    rows = [f"{prefix}{name}_size: {size}" for name, size in parallel.items()]
    more = "\n".join(["parallelism_config:", *rows] if rows else [])
    text = LAUNCH.format(processes=processes, degrees=more)
    files = {"launch.yaml": text, "sft.yaml": ARGUMENTS}
    found = findings(files, "launch.yaml", "--with", "sft.yaml")
    assert (UNEVEN in found) == uneven


def test_estimate_of_a_trainer_that_can_turn_it_off(fp8tune, project):
    project({"a.toml": titan()})
    said = fp8tune("estimate", "a.toml", "--gpu", "h100", "--world-size", "6")
    assert said.code == 1
    assert "this cannot run: FP8 all-gather fails over 6 shards" in said.out
    assert "does FP8 pay here? no" in said.out
    assert "fp8 cannot run" in said.out


def test_search_refuses_at_the_start(fp8tune, project):
    project({"a.toml": KEMPNER.format(precision="fp8")})
    options = ("--world-size", "24", "--budget", "5m", "--device", "cpu")
    said = fp8tune("search", "a.toml", *options)
    assert said.code == 2
    assert "FP8 all-gather fails over 24 shards" in said.err


MX = """\
[model]
name = "{model}"
flavor = "{flavor}"
converters = ["quantize.linear.mx"]
[training]
local_batch_size = 1
seq_len = {seq_len}
[compile]
enable = true
[quantize.linear.mx]
mxfp8_dim1_cast_kernel_choice = "{kernel}"
filter_fqns = ["output"{filters}]
"""


def mx(model, flavor, kernel="triton", filters="", seq_len=8192):
    named = {"model": model, "flavor": flavor, "kernel": kernel}
    return MX.format(filters=filters, seq_len=seq_len, **named)


ODD, TOKENS = "mx-size-not-multiple", "mx-tokens-not-multiple"
ROUTER = ', "router.gate"'


@each(
    ("text", "rules", "said"),
    [
        (mx("llama4", "17bx16e"), {ODD}, "moe.router.gate has 16 outputs"),
        (mx("llama4", "17bx16e", filters=ROUTER), set(), ""),
        (mx("deepseek_v3", "16B"), {ODD}, "attention.wkv_a has 576 outputs"),
        (mx("deepseek_v3", "16B", "cuda"), set(), ""),
        (mx("llama3", "8B"), set(), ""),
        (mx("llama3", "8B", seq_len=8208), {TOKENS}, "here they are 8208"),
        (mx("llama3", "8B", "cuda", seq_len=8224), set(), ""),
    ],
)
def test_mxfp8_sizes_that_its_blocks_do_not_divide(findings, text, rules, said):
    options = ("--gpu", "b200", "--world-size", "8")
    found = findings({"a.toml": text}, "a.toml", *options)
    assert found.keys() & {ODD, TOKENS} == rules
    assert all(said in found[rule]["message"] for rule in rules)


def test_torchtitan_0_1_0_has_the_same_router_under_other_keys(findings):
    """Its shared experts are no linears, and its Triton kernel is a switch."""
    text = """\
[model]
name = "llama4"
flavor = "17bx16e"
converters = ["mx"]
[training]
seq_len = 8192
compile = true
[mx]
use_fp8_dim1_cast_triton_kernel = false
"""
    options = ("--gpu", "b200", "--world-size", "8", "--trainer", "torchtitan==0.1.0")
    found = findings({"a.toml": text}, "a.toml", *options)
    assert "multiples of 32" in found[ODD]["message"]


def test_the_fix_filters_every_odd_linear(fp8tune, project):
    folder = project({"a.toml": mx("deepseek_v3", "16B")})
    options = ("--gpu", "b200", "--world-size", "8", "--unsafe-fixes", "--fix")
    fp8tune("lint", "a.toml", *options)
    dense = [f"feed_forward.w{number}" for number in (1, 2, 3)]
    names = "".join(f', "{name}"' for name in ("attention.wkv_a", *dense))
    fixed = mx("deepseek_v3", "16B", filters=names + ROUTER)
    assert folder.joinpath("a.toml").read_text() == fixed


BRIDGE = "train: {micro_batch_size: 1}\nmixed_precision: bf16_mixed\n"
MEGATRON = """\
torchrun --nproc_per_node 8 pretrain_gpt.py \\
  --num-layers 8 --hidden-size 1024 --num-attention-heads 16 \\
  --seq-length 1024 --max-position-embeddings 1024 \\
  --micro-batch-size 1 --global-batch-size 64 --train-iters 100 --lr 0.0003 --bf16
"""
FLUX = '[model]\nname = "flux"\nflavor = "flux-dev"\n[training]\nseq_len = 512\n'
NO_OPTIMIZER = AUTOMODEL.format(degrees="tp_size: 1")
GPU = "the number is assumed: add --world-size 16"


@each(
    ("files", "options", "said"),
    [
        (
            {"a.yaml": AXOLOTL.format(gather="false", degrees="")},
            (),
            [
                GPU,
                "memory: unknown: no estimate covers activations of a compiled model",
                "the speed of Axolotl: too few runs of it are published",
            ],
        ),
        ({"a.yaml": NO_OPTIMIZER}, (), [GPU, "the file names no optimizer: add"]),
        (
            {"a.yaml": BRIDGE},
            ("--trainer", "megatron_bridge"),
            [GPU, "sizes of the model: write them out (`model.num_layers`"],
        ),
        ({"a.sh": MEGATRON}, (), ["add to the script: `--vocab-size 128256`"]),
        ({"a.toml": FLUX}, (), [GPU, 'does not know `model.name = "flux"`']),
    ],
)
def test_estimate_names_what_is_missing_and_what_to_type(
    fp8tune, project, files, options, said
):
    project(files)
    (name,) = files
    out = " ".join(fp8tune("estimate", name, *options).out.split())
    assert [text for text in said if text not in out] == []


TRAINING = """\
model_name_or_path: Qwen/Qwen3-8B
output_dir: out
per_device_train_batch_size: 2
max_length: 4096
bf16: true
gradient_checkpointing: true
"""
FSDP_ALONE = "distributed_type: FSDP\nmixed_precision: bf16\nnum_processes: 8\n"
OPEN = MEGATRON.replace("--num-layers 8", "--num-layers $NL")
COMES = "`--num-layers` comes from `{0}`, which is not known before the run: write its "
COMES += "value, or a default: `${{{1}:-VALUE}}`"
BEHIND = "; lint and estimate also take the script's arguments behind `--`"
OTHER_LOSS = AUTOMODEL.format(degrees="tp_size: 1").replace(
    "checkpoint:", "optimizer:\n  _target_: torch.optim.AdamW\ncheckpoint:"
)
FACTORY = """\
model_name_or_path: Qwen/Qwen3-8B
stage: sft
finetuning_type: full
template: qwen3
per_device_train_batch_size: 1
cutoff_len: 4096
bf16: true
pure_bf16: true
torch_compile: true
disable_gradient_checkpointing: true
output_dir: out
"""


@each(
    ("name", "text", "options", "said"),
    [
        ("a.yaml", TRAINING, (), "name the launch file: add --with LAUNCH.yaml"),
        ("a.yaml", FSDP_ALONE, (), "name the training arguments: add --with TRAINING"),
        ("a.sh", OPEN, (), COMES.format("$NL", "NL")),
        (
            "a.sh",
            f"num_layers=$2\n{OPEN.replace('NL', '{num_layers}')}",
            (),
            COMES.format("$2", "2") + BEHIND,
        ),
        (
            "a.sh",
            OPEN.replace("$NL", "$(nproc)"),
            (),
            "`--num-layers` is not known before the run (",
        ),
        (
            "a.yaml",
            OTHER_LOSS.replace("8192", "${SIZE}"),
            (),
            "`packed_sequence.packed_sequence_size` is not known before the run: write",
        ),
        (
            "a.yaml",
            AXOLOTL.format(gather="false", degrees=""),
            (),
            "model without full AC: set `gradient_checkpointing: true`",
        ),
        (
            "a.yaml",
            FACTORY,
            ("--world-size", "1", "--trainer", "llamafactory"),
            "model without full AC: set `disable_gradient_checkpointing: false`",
        ),
        (
            "a.toml",
            KEMPNER.format(precision="fp8")
            .replace('"full"', '"none"')
            .replace("[model]", "[model]\nqk_norm = true"),
            (),
            'set `train.activation_checkpointing = "full"`',
        ),
    ],
)
def test_an_unknown_memory_names_what_to_type(
    fp8tune, project, name, text, options, said
):
    project({name: text})
    out = fp8tune("estimate", name, *options).out
    assert said in " ".join(out.split())
    explained = fp8tune("explain", "memory.peak_gib", name, *options).out
    reason = out.partition("memory: unknown: ")[2].partition("\nspeed:")[0]
    lead = explained.partition("In this config\n")[2]
    assert lead
    assert " ".join(reason.split()) in " ".join(lead.split())


def test_a_reason_stands_once(fp8tune, project):
    project({"a.sh": OPEN})
    out = fp8tune("estimate", "a.sh").out
    assert out.count("`--num-layers` comes from") == 1
    assert "speed: unknown, for the same reason" in out
    assert "--num-layers` comes from `$NL`" in fp8tune("lint", "a.sh").out
    explained = fp8tune("explain", "speed.tokens_per_second", "a.sh").out
    assert "unknown: `--num-layers` comes from `$NL`" in explained
    project({"a.sh": OPEN.replace("$NL", "${NL:-8}")})
    assert "comes from" not in fp8tune("lint", "a.sh").out


def test_explain_shows_no_tables_of_tables(fp8tune, project):
    script = MEGATRON.replace("--bf16", "--bf16 --vocab-size 32000")
    project({"a.sh": script})
    out = fp8tune("explain", "memory.peak_gib", "a.sh").out
    assert "memory.breakdown = optimizer state" in out
    assert "memory_peaks" not in out
    assert "memory_largest_stage" not in out
    out = fp8tune("explain", "memory.peak_gib", "a.sh", "--all").out
    assert "memory_peaks = a table of 1 entry" in out
    assert 'memory_largest_stage = ""' in out


@each(
    ("gpus", "code"),
    [("l4", 1), ("l4,rtx-4090", 1), ("l4,b200", 0), ("b200,h200", 0)],
)
def test_exit_code_of_a_table(fp8tune, project, gpus, code):
    project({"a.toml": KEMPNER.format(precision="bf16")})
    sizes = "2" if "," in gpus else "1,2"
    options = "--gpu", gpus, "--world-size", sizes
    assert fp8tune("estimate", "a.toml", *options).code == code
    as_json = *options, "--output-format", "json"
    assert fp8tune("estimate", "a.toml", *as_json).code == code


def test_a_micro_batch_of_0_has_no_grid(fp8tune, project):
    text = AXOLOTL.format(gather="false", degrees="")
    project({"a.yaml": text.replace("micro_batch_size: 2", "micro_batch_size: 0")})
    out = fp8tune("estimate", "a.yaml").out
    assert "memory: unknown" in out
    assert "start with" not in out
