"""What a launch file and training arguments mean together."""

from fp8tune.job import Target
from fp8tune.trainers.packages import pinned, with_releases
from fp8tune.trainers.trainer import trainer
from tests.each import each

FILE = "distributed_type: {}\nmixed_precision: {}\nnum_processes: 8\nfp8_config: {}\n"
DDP = FILE.format("MULTI_GPU", "fp8", "{backend: AO}")
FSDP2 = "fsdp_config: {fsdp_version: 2, fsdp_cpu_ram_efficient_loading: false}\n"


@each(
    ("text", "precision"),
    [
        (DDP, None),  # a script's arguments may turn it off
        (DDP + "training: {bf16: false}\n", "fp8"),
        (DDP + "training: {bf16: true}\n", "bf16"),
        (DDP + "training: {fp16: true}\n", "fp16"),
        (DDP + "training: {packing: true}\n", "bf16"),
        ("training: {bf16: true}\n", "bf16"),
        ("training: {bf16: false}\n", None),
        (FILE.format("MULTI_GPU", "fp8", "{}") + "training: {bf16: false}\n", None),
        (
            FILE.format("FSDP", "fp8", "{backend: TE}")
            + FSDP2
            + "training: {bf16: false}\n",
            "bf16",
        ),
        (
            FILE.format("FSDP", "fp8", "{backend: AO}")
            + FSDP2
            + "training: {bf16: false}\n",
            "fp8",
        ),
    ],
)
def test_precision(job, text, precision):
    assert job(text).find("precision") == precision


TE = FILE.format("MULTI_GPU", "fp8", "{backend: TE, margin: 2}")


@each(
    ("text", "precision", "read"),
    [
        (TE + "training: {bf16: false}\n", "fp8", True),
        (TE + "training: {bf16: true}\n", "fp8", False),  # its options are lost
        (TE + "training: {packing: true}\n", "fp8", False),
        (
            TE.replace("MULTI_GPU", "FSDP") + FSDP2 + "training: {bf16: true}\n",
            "bf16",
            False,
        ),
        (
            TE.replace("MULTI_GPU", "DEEPSPEED") + "training: {bf16: true}\n",
            None,
            False,
        ),
    ],
)
def test_transformer_engine_stays_on_without_its_options(job, text, precision, read):
    """Accelerate's own switch is off, and the backend still comes from the launcher."""
    found = job(text)
    assert (found.find("precision"), found["te_options_read"]) == (precision, read)


@each(
    ("text", "head", "apart"),
    [
        (TE + "training: {model_name_or_path: Qwen/Qwen2.5-0.5B}\n", True, True),
        (TE + "training: {model_name_or_path: Qwen/Qwen2.5-7B}\n", True, False),
        (DDP + "training: {model_name_or_path: Qwen/Qwen2.5-0.5B}\n", False, False),
    ],
)
def test_the_head_of_transformer_engine(job, text, head, apart):
    """It is converted, and one that was tied is not trained."""
    found = job(text)
    assert (found["fp8_converts_head"], found["te_head_apart"]) == (head, apart)


NO_BACKEND = FILE.format("MULTI_GPU", "fp8", "{}")


@each(
    ("text", "transformers", "outcome"),
    [
        (NO_BACKEND, "", "open"),
        (NO_BACKEND + "training: {bf16: false}\n", "", "either"),
        (NO_BACKEND + "training: {bf16: false}\n", "4.57.6", "fp16"),
        (NO_BACKEND + "training: {bf16: false}\n", "5.23.0", "ends"),
        (DDP, "", "ends"),
        (TE + "training: {bf16: true}\n", "", "ends"),
        (NO_BACKEND.replace("fp8", "bf16", 1), "", ""),
    ],
)
def test_fp8_on_a_gpu_without_it(load, text, transformers, outcome):
    loaded = load(text)
    if transformers:
        loaded.values["transformers_release"] = transformers
    job = trainer("accelerate==1.15.0").job(loaded, Target("a100"))
    assert job["fp8_without_units"] == outcome


DEEPSPEED = "distributed_type: DEEPSPEED\nnum_processes: 8\n"
OWN = "deepspeed_config: {deepspeed_config_file: ds.json"
ZERO = "deepspeed: {zero_optimization: {stage: 2}"
NAMED = "training: {deepspeed: ds.json}\n"


@each(
    ("text", "key", "without_zero"),
    [
        (DEEPSPEED + OWN + "}\n", "", False),  # the file is not known
        (DEEPSPEED + OWN + "}\n" + ZERO + "}\n", "", False),
        (DEEPSPEED + OWN + "}\ndeepspeed: {bf16: {enabled: true}}\n", "", True),
        (
            DEEPSPEED + OWN + ", zero_stage: null}\n",
            "deepspeed_config.zero_stage",
            False,
        ),
        (DEEPSPEED + OWN + "}\nmixed_precision: 'no'\n", "mixed_precision", False),
        (
            DEEPSPEED + "deepspeed_config: {zero_stage: 2}\n" + NAMED,
            "deepspeed_config.zero_stage",
            False,
        ),
        (NAMED + "deepspeed: {bf16: {enabled: true}}\n", "", True),
    ],
)
def test_a_deepspeed_file_and_the_launch_file(job, text, key, without_zero):
    found = job(text)
    beside = found.find("key_beside_deepspeed_file") or ""
    assert (beside, found["deepspeed_file_without_zero"]) == (key, without_zero)


@each(
    ("arguments", "file", "words"),
    [
        (
            "per_device_train_batch_size: 1",
            "train_micro_batch_size_per_gpu: 4",
            "`train_micro_batch_size_per_gpu` is 4, and "
            "`per_device_train_batch_size` is 1",
        ),
        ("per_device_train_batch_size: 1", "train_micro_batch_size_per_gpu: auto", ""),
        ("bf16: true", "train_micro_batch_size_per_gpu: 4", ""),  # a script's default
        (
            "learning_rate: 0.1",
            "optimizer: {params: {lr: 0.2}}",
            "`optimizer.params.lr` is 0.2, and `learning_rate` is 0.1",
        ),
        (
            "packing: true",  # TRL turns bf16 on
            "bf16: {enabled: false}",
            "`bf16.enabled` is false, and `bf16` is true",
        ),
    ],
)
def test_a_deepspeed_file_and_the_training_arguments(job, arguments, file, words):
    text = f"training: {{{arguments}, deepspeed: ds.json}}\n{ZERO}, {file}}}\n"
    found = job(text)
    differs = found["deepspeed_mismatch"]
    assert (found["deepspeed_mismatch_words"] if differs else "") == words


def test_accelerate_accumulates_nothing_where_its_file_says_nothing(job):
    """It writes 1 into the launch file's own one, and the Trainer compares."""
    arguments = "training: {gradient_accumulation_steps: 2%s}\n"
    launched = DEEPSPEED + OWN + "}\n" + arguments % "" + ZERO + "}\n"
    named = arguments % ", deepspeed: ds.json" + ZERO + "}\n"
    found = [job(text)["deepspeed_mismatch"] for text in (launched, named)]
    assert found == ["deepspeed.gradient_accumulation_steps", ""]


TRL = "training: {bf16: false, packing: false, per_device_train_batch_size: %s}\n"


@each(
    ("version", "table", "batch", "any_length"),
    [
        ("1.12.0", "{backend: AO}", 1, True),
        ("1.12.0", "{backend: AO}", 16, False),
        ("1.13.0", "{backend: AO}", 1, False),  # pads by default
        ("1.13.0", "{backend: AO, pad_inner_dim: false}", 1, True),
        ("1.12.0", "{backend: TE}", 1, False),  # has a rule of its own
    ],
)
def test_torchao_pads_the_tokens_since_1_13(job, version, table, batch, any_length):
    text = FILE.format("MULTI_GPU", "fp8", table) + TRL % batch
    assert job(text, version)["float8_any_length"] == any_length


def test_fields_of_a_run(job):
    found = job(
        FILE.format("FSDP", "fp8", "{backend: AO}")
        + FSDP2
        + "training: {bf16: false, per_device_train_batch_size: 2, max_length: 4096,"
        " gradient_accumulation_steps: 4, gradient_checkpointing: true}\n"
    )
    names = ("world_size", "micro_batch", "grad_accum", "seq_len", "ac", "compile")
    assert [found[name] for name in names] == [8, 2, 4, 4096, "full", False]
    fp8 = ("fp8_recipe", "fp8_all_gather", "loads_on_one_rank")
    assert [found[name] for name in fp8] == ["tensorwise", True, False]


def test_the_all_gather_is_on_by_default_since_1_13(job):
    text = DDP + "training: {bf16: false}\n"
    assert [job(text, v)["gathers_fp8"] for v in ("1.12.0", "1.13.0")] == [False, True]


@each(
    ("requirement", "option"),
    [
        ("transformer-engine[pytorch]==2.10.0", "fp8_config.interval"),
        ("transformer_engine<2.3", ""),
        ("torch==2.9.0", "fp8_config.interval"),
    ],
)
def test_options_that_a_pinned_release_has(tmp_path, load, requirement, option):
    """Without a pin the newest release is meant."""
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / "requirements.txt").write_text(requirement)
    pinned.cache_clear()
    known = trainer("accelerate==1.15.0")
    loaded = load(FILE.format("MULTI_GPU", "fp8", "{backend: TE, interval: 16}"))
    loaded = with_releases(loaded, known.about, str(tmp_path / "launch.yaml"))
    assert known.job(loaded, Target())["te_option_gone"] == option
