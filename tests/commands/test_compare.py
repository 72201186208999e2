"""``fp8tune compare``: the trainer that is named."""

from tests.conftest import REPOSITORY

FOLDER = REPOSITORY / "docs" / "own_trainer"


def test_configs_of_a_trainer_that_is_named(fp8tune):
    paths = (FOLDER / "fixed.toml", FOLDER / "train.toml")
    told = ("--trainer", FOLDER / "ours.toml", "--output-format", "json")
    said = fp8tune("compare", *map(str, (*paths, *told))).json
    assert [one["name"] for one in said["values"]] == [
        "model.vocab",
        "train.compile",
        "train.context",
        "train.seq_len",
    ]


MEGATRON = (
    "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 8 --hidden-size 1024"
    " --num-attention-heads 16 --seq-length 1024 --micro-batch-size 1 --bf16"
)


def test_launch_scripts_show_each_flag_that_differs(fp8tune, project):
    other = f"{MEGATRON} --seed 3 --fp8-format hybrid\n"
    project({"a.sh": f"{MEGATRON} --seed 1\n", "b.sbatch": other})
    said = fp8tune("compare", "a.sh", "b.sbatch", "--output-format", "json").json
    values = {row["name"]: (row["first"], row["second"]) for row in said["values"]}
    assert values == {"fp8_format": (None, "hybrid"), "seed": (1, 3)}


LAUNCH = (
    "distributed_type: MULTI_GPU\nnum_processes: 8\n"
    "fp8_config: {backend: AO}\nmixed_precision: "
)


def test_launch_files_with_the_training_arguments(fp8tune, project):
    arguments = "output_dir: out\nper_device_train_batch_size: 8\nbf16: true\n"
    project({"a.yaml": f"{LAUNCH}bf16\n", "b.yaml": f"{LAUNCH}fp8\n"})
    project({"sft.yaml": arguments})
    command = ("compare", "a.yaml", "b.yaml", "--output-format", "json")
    rules = [
        {row["name"] for row in fp8tune(*command, *more).json["findings"]}
        for more in ((), ("--with", "sft.yaml"))
    ]
    assert rules[1] - rules[0]
