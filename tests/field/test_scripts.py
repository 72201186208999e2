"""Launch scripts and Megatron-LM: what users' scripts showed."""

import pytest

from fp8tune.formats import parse
from tests.each import each

RUN = """torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 16 \\
  --hidden-size 2048 --num-attention-heads 16 --seq-length 2048 \\
  --max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 \\
  --lr 1e-4 --tokenizer-type NullTokenizer --vocab-size 32000 --mock-data"""
CLEAN = f"{RUN} --bf16 --train-iters 100"
BLOCKS = f"{CLEAN} --fp8-format e4m3 --fp8-recipe blockwise"
SCALES = "NVTE_FP8_BLOCK_SCALING_FP32_SCALES"
BRIDGE = """\
train:
  train_iters: 100
mixed_precision:
  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig
  bf16: true
  fp8: e4m3
  fp8_recipe: blockwise
"""
BOTH = '{"train_batch_size": 8, "bf16": {"enabled": true}, "fp16": {"enabled": true}}'


@pytest.fixture
def findings(found):
    """Rules and keys of what is found in files, one of which is run.sh."""

    def lint(files, *options):
        return [(one["rule"], one["key"]) for one in found(files, *options, "run.sh")]

    return lint


def values(script):
    return parse(script.encode(), "run.sh").values


@each(
    ("flags", "key"),
    [
        ("--train-iters 1000 --lr-warmup-iters 1000", "lr_warmup_iters"),
        ("--train-iters 1000 --lr-warmup-iters 999", ""),
        (
            "--train-iters 1000 --lr-decay-iters 500 --lr-warmup-iters 600",
            "lr_warmup_iters",
        ),
        ("--train-samples 6400 --lr-warmup-samples 6400", "lr_warmup_samples"),
        (
            "--train-samples 6400 --lr-decay-samples 64 --lr-warmup-samples 65",
            "lr_warmup_samples",
        ),
        ("--train-samples 6400 --lr-warmup-iters 9", "lr_warmup_iters"),
        ("--train-samples 6400 --lr-decay-iters 9", "lr_decay_iters"),
        ("--train-samples 6400 --lr-decay-iters 9 --skip-train", ""),
        ("--train-iters 1000 --lr-warmup-fraction 1.0", "lr_warmup_fraction"),
        ("--train-iters 1000 --lr-warmup-iters 1000 --skip-train", ""),
        ("--train-iters $STEPS --lr-warmup-iters 1000", ""),
        ("--train-iters 9 --lr-decay-style WSD --lr-wsd-decay-iters 2", ""),
        ("--train-iters 1000 --min-lr -0.1", "min_lr"),
    ],
)
def test_megatron_asserts_its_schedule(findings, flags, key):
    """core/optimizer_param_scheduler.py: lr_warmup_steps < lr_decay_steps."""
    found = findings({"run.sh": f"{RUN} --bf16 {flags}\n"})
    assert found == [("refused-settings", key)] * bool(key)


@each("given", ["--train-iters 100", "--train-samples 6400", "--skip-train", ""])
def test_a_run_needs_its_length(findings, given):
    found = findings({"run.sh": f"{RUN} --bf16 {given}\n"})
    assert found == ([] if given else [("missing-key", "train_iters")])


@each(
    ("line", "word"),
    [
        ('X="${{X}} {}"', "$X"),
        ('X+=" {}"', "$X"),
        ("X+=({})", '"${X[@]}"'),
        ('X="$X {}"; echo "$X" | tee log', "$X"),
    ],
)
def test_a_text_that_grows_line_by_line(line, word):
    """Eleven scripts of users build their arguments so."""
    start = "X=()" if "(" in line else "X="
    path = "/data/some/long/path/to/a/file/number/{0}/text_document"
    lines = (line.format(f"--flag-{n} {path.format(n)}") for n in range(400))
    script = "\n".join([start, *lines, f"{CLEAN} {word} --tail 1"])
    found = values(script)
    assert (found["flag_0"], found["flag_399"]) == (path.format(0), path.format(399))
    assert (found["tail"], found["unresolved"]) == (1, [])


def test_a_text_that_doubles_is_not_kept():
    found = values("X='--a 1'\n" + 'X="$X $X"\n' * 40 + f"{CLEAN} $X\n")
    assert found["micro_batch_size"] == 1
    assert {*found["unresolved"]} == {"a text is too long"}


@each(
    ("change", "maybe"),
    [
        ('if [ -n "$KEY" ]; then CMD="$CMD --wandb-exp-name x-$JOB"; fi', 1),
        ('[ -n "$KEY" ] && CMD+=" --wandb-exp-name $JOB"', 1),
        ('case "$KEY" in a) CMD="$CMD --save $OUT/x";; esac', 1),
        ('CMD="$CMD --save $OUT"; test -f x && CMD="$CMD --load $OUT"', 1),
        ('CMD="$CMD $EXTRA"', 0),
    ],
)
def test_one_unknown_word_empties_no_command(findings, change, maybe):
    command = f"{RUN} --train-iters 100 --fp8-format e5m3".replace("\\\n", "")
    script = f'CMD="{command}"\n{change}\nsrun bash -c "$CMD"\n'
    found = findings({"run.sh": script})
    assert ("value-not-allowed", "fp8_format") in found
    assert (("unresolved-flags", "program") in found) is not bool(maybe)
    assert len(values(script)["maybe"]) == maybe


@each(
    ("before", "command"),
    [
        (f"export {SCALES}=1", BLOCKS),
        ("", f"{SCALES}=1 {BLOCKS}"),
        ("", f"sbatch <<EOF\nexport {SCALES}=1\n{BLOCKS}\nEOF"),
        (
            f'J="{{\\"env_vars\\": {{\\"{SCALES}\\": \\"1\\"}}}}"',
            'ray job submit --runtime-env-json="$J" -- '
            + BLOCKS.replace("torchrun", "python3 -m torch.distributed.run"),
        ),
    ],
)
def test_exported_variables_are_facts(findings, before, command):
    """FP32 scales of block scaling end a run on Blackwell."""
    files = {"run.sh": f"{before}\n{command}\n"}
    expected = [("fp32-scales-on-blackwell", SCALES)]
    assert findings(files, "--gpu", "b200") == expected
    assert findings(files, "--gpu", "h100") == []


def test_a_fact_needs_no_flags_of_other_files(findings):
    """Scripts of slime and miles source the sizes of the model."""
    flags = "--transformer-impl transformer_engine --fp8-format e4m3"
    script = f"""source models/8b.sh
J='{{"env_vars": {{"{SCALES}": "1"}}}}'
ray job submit --runtime-env-json="$J" -- python3 train.py ${{MODEL_ARGS[@]}} \\
  --global-batch-size 64 --tensor-model-parallel-size 2 {flags} --fp8-recipe blockwise
"""
    found = findings({"run.sh": script}, "--gpu", "b200")
    assert [rule for rule, _ in found] == [
        "fp32-scales-on-blackwell",
        "unresolved-flags",
    ]


@each(
    "before",
    [
        f"{SCALES}=1",
        f"export {SCALES}=${{1}}",
        f"if [ -f x ]; then export {SCALES}=1; fi",
        f"export {SCALES}=1; {SCALES}=0",
        f"bash -c 'export {SCALES}=1'",
    ],
)
def test_variables_that_may_be_another_are_none(findings, before):
    files = {"run.sh": f"{before}\n{BLOCKS}\n"}
    assert findings(files, "--gpu", "b200") == []


def test_variables_reach_the_config_that_a_script_names(findings):
    script = f"export {SCALES}=1\ntorchrun --nproc_per_node 8 train.py "
    files = {"run.sh": f"{script} --config-file c.yaml\n", "c.yaml": BRIDGE}
    found = findings(files, "--gpu", "b200", "--script")
    assert [rule for rule, _ in found] == ["fp32-scales-on-blackwell"]
    config = '[train]\nmixed_precision = "fp8"\ncompile_model = true\n'
    script = "export TORCHDYNAMO_DISABLE=1\nsrun python train.py c.toml\n"
    files = {"run.sh": script, "c.toml": config}
    found = findings(files, "--script")
    assert ("compile-off-by-environment", "train.compile_model") in found


@each(
    ("export", "release", "noted"),
    [
        ("", "", True),
        ("", "2.9.0", False),
        ("export NVTE_CPU_OFFLOAD_V1=1", "2.10.0", False),
    ],
)
def test_offloading_needs_a_variable(findings, export, release, noted):
    script = f"{export}\n{CLEAN} --fine-grained-activation-offloading\n"
    pins = f"transformer-engine=={release}\n" * bool(release)
    files = {"run.sh": script, "requirements.txt": pins}
    found = [rule for rule, _ in findings(files)]
    assert found == ["offloading-needs-variable"] * noted


FLAGS = CLEAN.partition("pretrain_gpt.py")[2]
HEAD = "#SBATCH --nodes=2\n#SBATCH --gres=gpu:h100:8"


@each(
    ("script", "processes"),
    [
        (f'C=(torchrun --nproc_per_node 4 pretrain_gpt.py)\n"${{C[@]}}" {FLAGS}', 4),
        (f"sbatch <<EOF\n#!/bin/bash\n{HEAD}\nsrun {CLEAN}\nEOF", 8),
        (f"N=2\ncat <<-EOT | sbatch\n\tsrun {CLEAN} --seed $N\n\tEOT", 8),
        (f'C="\n{CLEAN}"\nsbatch <<EOF\nsrun bash -x -c "${{C}}"\nEOF', 8),
    ],
)
def test_a_program_in_an_array_or_in_a_submitted_text(script, processes):
    found = values(script)
    assert found["program"] == "pretrain_gpt.py"
    assert (found["micro_batch_size"], found["processes"]) == (1, processes)


def test_gpus_of_a_submitted_text(fp8tune, project):
    script = f"M=1\nsbatch <<EOF\n#!/bin/bash\n{HEAD}\nsrun {BLOCKS}\nEOF\n"
    project({"run.sh": script.replace("h100", "a100")})
    assert "GPU from the #SBATCH lines" in fp8tune("lint", "run.sh").out


@each(
    ("script", "reason"),
    [
        ("make data\n", "it starts no Python program with flags or a config"),
        (
            f"torchrun $PROGRAM {FLAGS}\n",
            "what line 1 starts is not known before the run: `$PROGRAM` is not set in "
            "the script",
        ),
        (
            "python a.py --x 1\npython b.py --x 1\n",
            "the script starts several runs (a.py on line 1 and b.py on line 2): give "
            "each its own",
        ),
        (
            f"deepspeed pretrain_gpt.py {FLAGS} --deepspeed --no-pipeline-parallel "
            "--zero-stage 1 --deepspeed_config gone.json\n",
            "no gone.json in",
        ),
    ],
)
def test_a_refusal_is_one_sentence_for_both_commands(fp8tune, project, script, reason):
    project({"run.sh": script})
    for arguments in (["run.sh"], ["--script", "run.sh"]):
        said = fp8tune("lint", *arguments)
        assert (said.code, said.out) == (2, "")
        assert reason in said.err
        assert "--script" not in said.err


def test_a_script_is_its_own_config_for_both_commands(findings):
    files = {"run.sh": f"{RUN} --train-iters 100 --fp8-format hybrid\n"}
    found = findings(files)
    assert ("fp8-without-bf16", "bf16") in found
    assert findings(files, "--script") == found


def test_arguments_behind_a_script_are_its_own(fp8tune, project):
    script = RUN.replace("-batch-size 1 ", "-batch-size $2 ")
    project({"run.sh": f"{script} --bf16 --train-iters 100\n"})
    alone = fp8tune("lint", "run.sh")
    assert "`$2`, which is not known before the run: write its value" in alone.out
    for words in (["lint", "run.sh"], ["lint", "--script", "run.sh"]):
        said = fp8tune(*words, "--", "8B", "3")
        assert (said.code, "is no multiple of 3 x 8" in said.out) == (1, True)
    fits = fp8tune("estimate", "run.sh", "--", "8B", "2")
    assert (fits.code, "memory: unknown" in fits.out) == (0, False)


def test_a_script_of_a_config_is_no_config_of_the_other_commands(fp8tune, project):
    call = "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file $1"
    gpus = "#!/bin/bash\n#SBATCH --gpus-per-node=h100:8\n"
    config = '[model]\nname = "llama3"\n'
    project({"a.toml": config, "run.sbatch": f"{gpus}{call} --compile.enable\n"})
    said = fp8tune("estimate", "run.sbatch", "--", "a.toml")
    typed = "a.toml --gpu h100-sxm --world-size 8 -- --compile.enable"
    assert said.err == (
        f"fp8tune: run.sbatch: it runs a config: fp8tune estimate {typed}\n"
    )


@each(
    "command",
    [
        "torchrun --nproc_per_node 8 run_clm.py --bf16 --deepspeed ds.json",
        "python -m torch.distributed.run src/train.py --stage sft --deepspeed ds.json",
        "deepspeed --num_gpus 8 train.py --deepspeed --deepspeed_config ds.json",
    ],
)
def test_a_deepspeed_file_behind_any_program_is_followed(findings, fp8tune, command):
    files = {"run.sh": f"{command} --output_dir out\n", "ds.json": BOTH}
    found = findings(files, "--script")
    assert [rule for rule, _ in found] == ["deepspeed-refuses-value"]
    said = fp8tune("lint", "run.sh")
    assert said.code == 2
    assert "it runs ds.json; check that: fp8tune lint --script run.sh" in said.err


@each(
    ("flags", "message"),
    [
        ("--fp8-format --bf16", "`--fp8-format` must be followed by a string"),
        (
            "--tensor-model-parallel-size --bf16",
            "`--tensor-model-parallel-size` must be followed by a whole number",
        ),
        ("--bf16 --recompute-modules", "`--recompute-modules` must be followed by"),
        ("--bf16 yes", "must be a flag without a value"),
    ],
)
def test_a_flag_without_its_value_is_named_as_one(fp8tune, project, flags, message):
    project({"run.sh": f"{RUN} --train-iters 100 {flags}\n"})
    assert message in fp8tune("lint", "run.sh", "--output-format", "concise").out
