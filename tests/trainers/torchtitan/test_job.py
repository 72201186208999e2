"""What torchtitan's keys mean as a job, and how fields are set."""

from tests.each import each

MODEL = '[model]\nname = "llama3"\nflavor = "8B"\n'
FP8 = MODEL + 'converters = ["quantize.linear.float8"]\n'
TABLE = "[quantize.linear.float8]\n"


def test_sizes_of_a_flavor(job):
    found = job(MODEL)
    names = ("hidden_size", "layers", "heads", "kv_heads", "ffn_size", "vocab_size")
    assert [found[name] for name in names] == [4096, 32, 32, 8, 14336, 128256]
    assert found["params.count"] == 8_030_261_248


def test_the_tokenizer_decides_the_vocabulary_of_the_first_release(job):
    path = 'tokenizer_path = "./assets/Llama-3.1-8B/tokenizer.model"\n'
    assert job(MODEL, "0.1.0").find("vocab_size") is None
    assert job(MODEL + path, "0.1.0")["vocab_size"] == 128256


@each(
    ("text", "name", "value"),
    [
        (MODEL, "precision", "bf16"),
        (FP8, "precision", "fp8"),
        (MODEL + "[parallelism]\ntensor_parallel_degree = 8", "precision", "fp32"),
        (MODEL + 'converters = ["quantize.linear.mx"]', "precision", None),
        (FP8, "fp8_recipe", "tensorwise"),
        (FP8, "fp8_converts_head", True),
        (FP8 + TABLE + 'filter_fqns = ["output"]', "fp8_converts_head", False),
        (FP8 + TABLE + 'filter_fqns = ["head"]', "idle_filters", "head"),
        (FP8 + TABLE + 'filter_fqns = "output"', "converted_linears", 0),
        (MODEL, "dp_shard", 8),
        (MODEL + "[parallelism]\ncontext_parallel_degree = 4", "dp_ranks", 2),
        (MODEL, "grad_accum", 1),
        (MODEL, "ac", "every-2"),
        (MODEL + '[activation_checkpoint]\nmode = "none"', "ac", "none"),
        (
            MODEL + '[compile]\nenable = true\ncomponents = ["loss"]',
            "compile",
            False,
        ),
        (MODEL + "[compile]\nenable = true", "compile", True),
        ('[model]\nname = "deepseek_v3"\nflavor = "16B"', "moe_layers", 26),
        ('[model]\nname = "qwen3"\nflavor = "0.6B"', "tied_embeddings", True),
    ],
)
def test_fields(job, text, name, value):
    assert job(text + "\n").find(name) == value


@each(
    ("field", "value", "version", "keys"),
    [
        (
            "precision",
            "fp8",
            "0.2.2",
            {"model.converters": ["quantize.linear.float8"]},
        ),
        ("precision", "fp8", "0.1.0", {"model.converters": ["float8"]}),
        ("grad_accum", 2, "0.2.2", {"training.global_batch_size": 128}),
        ("compile", True, "0.2.2", {"compile.enable": True}),
        ("ac", "full", "0.2.2", {"activation_checkpoint.mode": "full"}),
        (
            "ac",
            "op",
            "0.2.2",
            {
                "activation_checkpoint.mode": "selective",
                "activation_checkpoint.selective_ac_option": "op",
            },
        ),
    ],
)
def test_fields_are_set_by_their_keys(job, field, value, version, keys):
    before = job(MODEL, version)
    assert before.words.settings[field](before, value) == keys
    assert before.with_values({field: value})[field] == value


COMPILED = "[compile]\nenable = true\n"


@each(
    ("option", "kept", "attention", "passes"),
    [
        ('mode = "none"', 139_400, 3.5, 3),
        ('selective_ac_option = "2"', 73_796, 4, 3.5),
        ('selective_ac_option = "3"', 98_397.5, 3.8125, 3.3125),
        ('mode = "full"', 8192, 4.5, 4),
    ],
)
def test_blocks_that_are_computed_again(job, option, kept, attention, passes):
    """Per block 2 * (4 D + 2 q + kv + 3 F) + 4 heads + 8 bytes without AC, 2 D with."""
    found = job(MODEL + COMPILED + f"[activation_checkpoint]\n{option}\n")
    assert found["activation_bytes"] == kept
    assert found["attention_passes"] == attention
    assert found["gemms"][0].passes == passes


@each(
    "text",
    [
        "[training]\nenable_cpu_offload = true\n",
        '[parallelism]\nfsdp_reshard_after_forward = "never"\n',
        "[parallelism]\ntensor_parallel_degree = 2\ndisable_loss_parallel = true\n",
        '[activation_checkpoint]\nmode = "memory_budget"\n',
    ],
)
def test_what_changes_memory_and_is_not_measured(job, text):
    assert job(MODEL + COMPILED + text).find("memory.peak_gib") is None


def test_ddp_has_a_lower_bound(job):
    degrees = "data_parallel_replicate_degree = 8\ndata_parallel_shard_degree = 1\n"
    found = job(MODEL + COMPILED + f"[parallelism]\n{degrees}")
    states = 12 * found["params.count"] / 2**30
    assert found.find("memory.peak_gib") is None
    assert states < found["memory.least_peak_gib"] < 2 * states
    assert found["memory.fit"] == "out-of-memory"


def test_recipes_have_speeds_of_their_own(job):
    ac = '[activation_checkpoint]\nmode = "full"\n'
    gains = {}
    for recipe in ("tensorwise", "rowwise", "rowwise_with_gw_hp"):
        text = FP8 + TABLE + f'recipe_name = "{recipe}"\n' + COMPILED + ac
        gains[recipe] = job(text).find("speed.fp8_gain")
    assert gains["rowwise_with_gw_hp"] is None
    assert gains["rowwise"] + 0.1 < gains["tensorwise"]


def test_small_linears_stay_in_bf16_by_recipe(job):
    filters = 'filter_fqns = ["auto_filter_small_kn"]\n'
    kept = {}
    for recipe in ("tensorwise", "rowwise"):
        text = FP8 + TABLE + filters + f'recipe_name = "{recipe}"\n'
        kept[recipe] = [g.name for g in job(text + COMPILED)["gemms"] if not g.fp8]
    assert kept == {"tensorwise": ["wk", "wv"], "rowwise": ["wk", "wv"]}
    small = FP8.replace("llama3", "qwen3").replace("8B", "0.6B") + TABLE + filters
    assert job(small + 'recipe_name = "rowwise"\n')["converted_linears"] == 0


def test_emulated_fp8_is_no_precision_of_the_gpu(job):
    text = FP8 + TABLE + "emulate = true\n"
    assert job(text).find("precision") is None
    assert job(text + 'recipe_name = "rowwise"\n')["precision"] == "fp8"


@each(
    ("name", "flavor", "reason"),
    [
        ("deepseek_v3", "16B", "latent attention"),
        ("gpt_oss", "20b", "mixtures of experts without a dense FFN"),
        ("llama4", "17bx16e", "the memory of this trainer's mixtures of experts"),
    ],
)
def test_lint_says_why_memory_is_not_checked(fp8tune, project, name, flavor, reason):
    project({"a.toml": f'[model]\nname = "{name}"\nflavor = "{flavor}"\n'})
    found = fp8tune("lint", "a.toml", "--gpu", "h100", "--world-size", "64")
    memory = next(line for line in found.out.splitlines() if line.startswith("memory"))
    assert memory.endswith(f"not checked because no estimate covers {reason}")
