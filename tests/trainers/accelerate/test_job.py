"""What a launch file and training arguments mean together."""

from fp8tune.job import Target
from fp8tune.trainers.packages import add_releases, pinned
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
        (DDP + "training: {output_dir: out}\n", None),  # or TRL turns bf16 on
        (DDP + "training: {bf16: true}\n", "bf16"),
        (DDP + "training: {fp16: true}\n", "fp16"),
        (DDP + "training: {packing: true}\n", "bf16"),
        (DDP + "training: {packing: true, bf16: false}\n", "fp8"),
        (DDP + "training: {bf16: 'false'}\n", None),
        ("training: {bf16: true}\n", "bf16"),
        ("training: {bf16: false}\n", None),
        (FILE.format("MULTI_GPU", "bf16", "{}") + "training: {bf16: false}\n", "bf16"),
        (FILE.format("MULTI_GPU", "'no'", "{}") + "training: {bf16: false}\n", None),
        (FILE.format("MULTI_GPU", "fp8", "{}") + "training: {bf16: false}\n", None),
        (
            FILE.format("DEEPSPEED", "fp8", "{backend: AO}")
            + "training: {bf16: false}\n",
            None,
        ),
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
    add_releases(loaded, known, str(tmp_path / "launch.yaml"))
    assert known.job(loaded, Target())["te_option_gone"] == option
